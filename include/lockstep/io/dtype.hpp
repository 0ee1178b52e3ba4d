#pragma once
// Element types of safetensors files that lockstep reads and writes, and their conversion from and to float.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/precision/float16.hpp"

namespace lockstep::io {

static_assert(std::endian::native == std::endian::little, "lockstep: files are little-endian, and so must be the machine");

/// In the order in which tensors lie in a file: widest first, so that each is aligned.
enum class Dtype { i64, f64, f32, u32, i32, bf16, f16, u16, u8, boolean };

namespace detail {

struct DtypeFacts {
    std::string_view name;
    std::size_t      bytes;
};
inline constexpr std::array<DtypeFacts, 10> dtypes{
    {{"I64", 8}, {"F64", 8}, {"F32", 4}, {"U32", 4}, {"I32", 4}, {"BF16", 2}, {"F16", 2}, {"U16", 2}, {"U8", 1}, {"BOOL", 1}}};

}  // namespace detail

constexpr std::string_view name(Dtype dtype) noexcept { return detail::dtypes[static_cast<std::size_t>(dtype)].name; }
constexpr std::size_t      bytes(Dtype dtype) noexcept { return detail::dtypes[static_cast<std::size_t>(dtype)].bytes; }

constexpr std::optional<Dtype> find_dtype(std::string_view name) noexcept {
    for (std::size_t i = 0; i < detail::dtypes.size(); ++i)
        if (detail::dtypes[i].name == name) return static_cast<Dtype>(i);
    return std::nullopt;
}

constexpr bool floating(Dtype d) noexcept { return d == Dtype::f64 || d == Dtype::f32 || d == Dtype::bf16 || d == Dtype::f16; }

/// The type of a file that holds T bit for bit.
template <class T>
inline constexpr std::optional<Dtype> dtype_of = std::is_same_v<T, float>                 ? std::optional(Dtype::f32)
                                                 : std::is_same_v<T, double>              ? std::optional(Dtype::f64)
                                                 : std::is_same_v<T, precision::bfloat16> ? std::optional(Dtype::bf16)
                                                 : std::is_same_v<T, precision::float16>  ? std::optional(Dtype::f16)
                                                 : std::is_same_v<T, std::int64_t>        ? std::optional(Dtype::i64)
                                                 : std::is_same_v<T, std::int32_t>        ? std::optional(Dtype::i32)
                                                 : std::is_same_v<T, std::uint32_t>       ? std::optional(Dtype::u32)
                                                 : std::is_same_v<T, std::uint16_t>       ? std::optional(Dtype::u16)
                                                 : std::is_same_v<T, std::uint8_t>        ? std::optional(Dtype::u8)
                                                                                          : std::nullopt;
template <class T>
concept stored_element = dtype_of<T>
.has_value();

namespace detail {

template <class Stored>
void widen(std::byte const* in, std::span<float> out) noexcept {
    for (std::size_t i = 0; i < out.size(); ++i) {
        Stored element;
        std::memcpy(&element, in + i * sizeof(Stored), sizeof(Stored));  // the file promises no alignment
        out[i] = static_cast<float>(element);
    }
}
template <class Stored>
void narrow(std::span<float const> in, std::byte* out) noexcept {
    for (std::size_t i = 0; i < in.size(); ++i) {
        Stored const element = static_cast<Stored>(in[i]);
        std::memcpy(out + i * sizeof(Stored), &element, sizeof(Stored));
    }
}

}  // namespace detail

/// `in` holds out.size() elements of a floating dtype. F64 is rounded to nearest even; the others are exact, NaN payloads too.
inline void to_float(Dtype from, std::byte const* in, std::span<float> out) noexcept {
    if (from == Dtype::f64) detail::widen<double>(in, out);
    if (from == Dtype::bf16) detail::widen<precision::bfloat16>(in, out);
    if (from == Dtype::f16) detail::widen<precision::float16>(in, out);
    if (from == Dtype::f32 && !out.empty()) std::memcpy(out.data(), in, out.size_bytes());
}

/// The reverse; BF16 and F16 round to nearest even.
inline void from_float(Dtype to, std::span<float const> in, std::byte* out) noexcept {
    if (to == Dtype::f64) detail::narrow<double>(in, out);
    if (to == Dtype::bf16) detail::narrow<precision::bfloat16>(in, out);
    if (to == Dtype::f16) detail::narrow<precision::float16>(in, out);
    if (to == Dtype::f32 && !in.empty()) std::memcpy(out, in.data(), in.size_bytes());
}

}  // namespace lockstep::io
