#pragma once
// The door to xsimd: one batch of floats, as wide as the registers this program was compiled for. 16-bit types are widened when they are
// loaded and rounded to nearest even when they are stored, with the bits that precision::bfloat16 and precision::float16 give.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__AVX512F__) || defined(__AVX2__) || defined(__F16C__)
#include <immintrin.h>
#endif
#include <xsimd/xsimd.hpp>

#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/precision/float16.hpp"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {

/// A type that batches are loaded from and stored to. All arithmetic is in float.
template <class T>
concept simd_element = std::same_as<T, float> || std::same_as<T, precision::bfloat16> || std::same_as<T, precision::float16>;

using Batch = xsimd::batch<float>;

/// Floats in a batch.
inline constexpr std::size_t width = Batch::size;

namespace detail {
#if defined(__AVX512F__)
static_assert(width == 16);

inline Batch widen_bfloat16(std::uint16_t const* from) noexcept {
    __m256i const words = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(from));
    return Batch(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16)));
}
inline void narrow_bfloat16(std::uint16_t* to, Batch value) noexcept {
    __m512 const    x       = value;
    __m512i const   u       = _mm512_castps_si512(x);
    __m512i const   odd     = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i const   rounded = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7FFF)), odd), 16);
    __m512i const   quiet   = _mm512_or_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));
    __mmask16 const nan     = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, nan, quiet)));
}
inline Batch widen_float16(std::uint16_t const* from) noexcept {
    return Batch(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(from))));
}
inline void narrow_float16(std::uint16_t* to, Batch value) noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_maskz_cvtps_ph(__mmask16{0xFFFF}, value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#else
#if defined(__AVX2__)
static_assert(width == 8);

inline Batch widen_bfloat16(std::uint16_t const* from) noexcept {
    __m128i const words = _mm_loadu_si128(reinterpret_cast<__m128i const*>(from));
    return Batch(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16)));
}
inline void narrow_bfloat16(std::uint16_t* to, Batch value) noexcept {
    __m256 const  x       = value;
    __m256i const u       = _mm256_castps_si256(x);
    __m256i const odd     = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i const rounded = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7FFF)), odd), 16);
    __m256i const quiet   = _mm256_or_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(0x40));
    __m256i const nan     = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m256i const chosen  = _mm256_blendv_epi8(rounded, quiet, nan);
    __m128i const packed  = _mm_packus_epi32(_mm256_castsi256_si128(chosen), _mm256_extracti128_si256(chosen, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), packed);
}
#else
inline Batch widen_bfloat16(std::uint16_t const* from) noexcept {
    alignas(64) std::array<float, width> lanes;
    for (std::size_t i = 0; i < width; ++i) lanes[i] = precision::bfloat16::from_bits(from[i]);
    return Batch::load_unaligned(lanes.data());
}
inline void narrow_bfloat16(std::uint16_t* to, Batch value) noexcept {
    alignas(64) std::array<float, width> lanes;
    value.store_unaligned(lanes.data());
    for (std::size_t i = 0; i < width; ++i) to[i] = precision::bfloat16(lanes[i]).bits;
}
#endif
#if defined(__AVX2__) && defined(__F16C__)
inline Batch widen_float16(std::uint16_t const* from) noexcept {
    return Batch(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(from))));
}
inline void narrow_float16(std::uint16_t* to, Batch value) noexcept {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#else
inline Batch widen_float16(std::uint16_t const* from) noexcept {
    alignas(64) std::array<float, width> lanes;
    for (std::size_t i = 0; i < width; ++i) lanes[i] = precision::float16::from_bits(from[i]);
    return Batch::load_unaligned(lanes.data());
}
inline void narrow_float16(std::uint16_t* to, Batch value) noexcept {
    alignas(64) std::array<float, width> lanes;
    value.store_unaligned(lanes.data());
    for (std::size_t i = 0; i < width; ++i) to[i] = precision::float16(lanes[i]).bits;
}
#endif
#endif
}  // namespace detail

/// `width` elements as floats. No alignment is asked for.
inline Batch load(float const* from) noexcept { return Batch::load_unaligned(from); }
inline Batch load(precision::bfloat16 const* from) noexcept { return detail::widen_bfloat16(reinterpret_cast<std::uint16_t const*>(from)); }
inline Batch load(precision::float16 const* from) noexcept { return detail::widen_float16(reinterpret_cast<std::uint16_t const*>(from)); }

/// Stores `width` elements, rounded to nearest even; NaN stays NaN.
inline void store(float* to, Batch value) noexcept { value.store_unaligned(to); }
inline void store(precision::bfloat16* to, Batch value) noexcept { detail::narrow_bfloat16(reinterpret_cast<std::uint16_t*>(to), value); }
inline void store(precision::float16* to, Batch value) noexcept { detail::narrow_float16(reinterpret_cast<std::uint16_t*>(to), value); }

/// The first `count` < width elements; the other lanes are `rest`. Nothing behind them is touched.
template <simd_element T>
Batch load(T const* from, std::size_t count, float rest = 0.0f) noexcept {
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
    auto const   mask  = static_cast<__mmask16>((1u << count) - 1u);
    __m512 const other = _mm512_set1_ps(rest);
    if constexpr (std::same_as<T, float>)
        return Batch(_mm512_mask_loadu_ps(other, mask, from));
    else {
        __m256i const words = _mm256_maskz_loadu_epi16(mask, from);
        if constexpr (std::same_as<T, precision::bfloat16>)
            return Batch(_mm512_mask_mov_ps(other, mask, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16))));
        else
            return Batch(_mm512_mask_cvtph_ps(other, mask, words));
    }
#else
    alignas(64) std::array<float, width> lanes;
    for (std::size_t i = 0; i < width; ++i) lanes[i] = i < count ? static_cast<float>(from[i]) : rest;
    return load(lanes.data());
#endif
}

/// Stores the first `count` < width lanes.
template <simd_element T>
void store(T* to, Batch value, std::size_t count) noexcept {
#if defined(__AVX512F__)
    if constexpr (std::same_as<T, float>) {
        _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1u), value);
        return;
    }
#endif
    alignas(64) std::array<T, width> lanes;
    store(lanes.data(), value);
    std::memcpy(to, lanes.data(), count * sizeof(T));
}

/// Lane i holds i.
inline Batch lane_numbers() noexcept {
    std::array<float, width> lanes;
    for (std::size_t i = 0; i < width; ++i) lanes[i] = static_cast<float>(i);
    return load(lanes.data());
}

/// The same bits as lanes of T. xsimd 8 wants the batch to be named, later versions its element.
template <class T, class From>
xsimd::batch<T> bits_as(xsimd::batch<From> const& from) noexcept {
    if constexpr (requires {
                      { xsimd::bitwise_cast<T>(from) } -> std::same_as<xsimd::batch<T>>;
                  })
        return xsimd::bitwise_cast<T>(from);
    else
        return xsimd::bitwise_cast<xsimd::batch<T>>(from);
}

/// a * b + c, fused where the instruction set has it.
inline Batch fused(Batch a, Batch b, Batch c) noexcept {
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);  // xsimd 8.1 leaves it to the compiler to fuse
#else
    return xsimd::fma(a, b, c);
#endif
}

/// The larger; NaN if either is NaN. xsimd::max promises nothing of NaN, and a != a is false in xsimd 8.1.
inline Batch larger(Batch a, Batch b) noexcept { return xsimd::select(xsimd::isnan(a) | (a > b), a, b); }

/// Sum over the lanes as a binary tree, so always in the same order. Halves are taken from registers: through memory each level would wait
/// for the stores of the one before.
inline float horizontal_sum(Batch value) noexcept {
#if defined(__AVX2__)
#if defined(__AVX512F__)
    __m512 const all   = value;
    __m256 const upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(all), 1));
    __m256 const eight = _mm256_add_ps(_mm512_castps512_ps256(all), upper);
#else
    __m256 const eight = value;
#endif
    __m128 const four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 const two  = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
#else
    alignas(64) std::array<float, width> lanes;
    store(lanes.data(), value);
    for (std::size_t half = width / 2; half > 0; half /= 2)
        for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    return lanes[0];
#endif
}

/// Largest lane; NaN if one is NaN.
inline float horizontal_max(Batch value) noexcept {
    alignas(64) std::array<float, width> lanes;
    store(lanes.data(), value);
    for (std::size_t half = width / 2; half > 0; half /= 2)
        for (std::size_t i = 0; i < half; ++i) lanes[i] = lanes[i] > lanes[i + half] || lanes[i] != lanes[i] ? lanes[i] : lanes[i + half];
    return lanes[0];
}

/// e^x, relative error below 2e-7; 0 below -86.9 (no denormals), infinity above 88.72; NaN stays.
inline Batch exp(Batch x) noexcept {
    constexpr float shift = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits of the sum
    Batch const     moved = fused(x, Batch(1.44269504f), Batch(shift));
    Batch const     n     = moved - Batch(shift);
    Batch           r     = fused(n, Batch(-0x1.62e4p-1f), x);  // ln 2 in two parts, the first one short
    r                     = fused(n, Batch(-0x1.7f7d1cp-20f), r);
    Batch p               = Batch(1.0f / 5040.0f);
    for (float const c : {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f}) p = fused(p, r, Batch(c));
    auto const  bits   = (bits_as<std::int32_t>(moved) << 23) + xsimd::batch<std::int32_t>(126 << 23);
    Batch const scaled = p * bits_as<float>(bits) * Batch(2.0f);  // 2^(n-1) is finite where 2^n is not
    Batch const low    = xsimd::select(x < Batch(-86.9f), Batch(0.0f), scaled);
    return xsimd::select(x > Batch(88.7228394f), Batch(std::numeric_limits<float>::infinity()), low);
}

/// 1 / (1 + e^-x).
inline Batch sigmoid(Batch x) noexcept { return Batch(1.0f) / (Batch(1.0f) + exp(-x)); }

}  // namespace lockstep::kernel::arch

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
