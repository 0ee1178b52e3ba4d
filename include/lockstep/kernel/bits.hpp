#pragma once
// The bits of an element as an unsigned integer.

#include <bit>
#include <concepts>
#include <cstdint>

#include "lockstep/precision/mixed.hpp"

namespace lockstep::kernel {

constexpr std::uint64_t bits_of(double value) noexcept { return std::bit_cast<std::uint64_t>(value); }
constexpr std::uint32_t bits_of(float value) noexcept { return std::bit_cast<std::uint32_t>(value); }
constexpr std::uint16_t bits_of(precision::bfloat16 value) noexcept { return value.bits; }
constexpr std::uint16_t bits_of(precision::float16 value) noexcept { return value.bits; }

/// The exponent's bits: all set in infinities and NaN only.
template <precision::compute_element T>
constexpr auto exponent_bits() noexcept {
    if constexpr (std::same_as<T, double>)
        return std::uint64_t{0x7FF0000000000000u};
    else if constexpr (std::same_as<T, float>)
        return std::uint32_t{0x7F800000u};
    else if constexpr (std::same_as<T, precision::bfloat16>)
        return std::uint16_t{0x7F80u};
    else
        return std::uint16_t{0x7C00u};
}

}  // namespace lockstep::kernel
