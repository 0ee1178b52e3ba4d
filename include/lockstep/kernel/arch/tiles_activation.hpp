#pragma once
// GELU (tanh form) of sixteen floats, for sinks whose results are rounded to bfloat16. The formulas are those of scalar_activation.hpp.

#include "lockstep/kernel/arch/amx_tile.hpp"
#include "lockstep/kernel/arch/scalar_activation.hpp"

#if LOCKSTEP_TILES

#include <immintrin.h>

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {

namespace detail {

/// 1 / (1 + e^(-2u)) for 2u = x (slope + cubic x^2), relative error below 2e-4. A NaN may become a number: what it is multiplied with is
/// NaN.
LOCKSTEP_AVX512_INLINE __m512 gelu_sigmoid(__m512 x) noexcept {
    constexpr double log2_e = 1.4426950408889634;
    __m512 const     slope  = _mm512_set1_ps(static_cast<float>(-gelu_slope * log2_e)),
                 cubic      = _mm512_set1_ps(static_cast<float>(-gelu_cubic * log2_e));
    __m512 const shift      = _mm512_set1_ps(0x1.8p23f);
    __m512       t          = _mm512_mul_ps(x, _mm512_fmadd_ps(_mm512_mul_ps(cubic, x), x, slope));
    t                       = _mm512_max_ps(_mm512_set1_ps(-120.0f), _mm512_min_ps(t, _mm512_set1_ps(120.0f)));
    __m512 const n          = _mm512_sub_ps(_mm512_add_ps(t, shift), shift);  // the nearest integer
    __m512 const f          = _mm512_sub_ps(t, n);
    __m512       p          = _mm512_fmadd_ps(_mm512_set1_ps(0.00961812911f), f, _mm512_set1_ps(0.0555041087f));  // ln(2)^4 / 4!, ...
    p                       = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.240226507f));
    p                       = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.693147181f));
    p                       = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
    return _mm512_rcp14_ps(_mm512_add_ps(_mm512_set1_ps(1.0f), _mm512_scalef_ps(p, n)));
}

}  // namespace detail

/// x * sigmoid(2u).
LOCKSTEP_AVX512_INLINE __m512 gelu(__m512 x) noexcept { return _mm512_mul_ps(x, detail::gelu_sigmoid(x)); }

/// The derivative of gelu at x: s + x s (1 - s) (slope + 3 cubic x^2).
LOCKSTEP_AVX512_INLINE __m512 gelu_slope_at(__m512 x) noexcept {
    __m512 const slope = _mm512_set1_ps(static_cast<float>(gelu_slope)), cubic = _mm512_set1_ps(static_cast<float>(3 * gelu_cubic));
    __m512 const s = detail::gelu_sigmoid(x), xs = _mm512_mul_ps(x, s);
    __m512 const inner = _mm512_fmadd_ps(_mm512_mul_ps(cubic, x), x, slope);
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(xs, s, xs), inner, s);
}

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
