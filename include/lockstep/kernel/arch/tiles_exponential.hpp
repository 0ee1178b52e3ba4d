#pragma once
// Exponentials and logarithms to base 2 of 16 floats, for softmaxes whose weights are rounded to bfloat16.

#include "lockstep/kernel/arch/amx_tile.hpp"

#if LOCKSTEP_TILES

#include <immintrin.h>

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wsign-conversion"  // of masks, where the intrinsics are macros (without optimisation)
#endif

namespace lockstep::kernel::arch {

inline constexpr float log2_e = 1.44269504f;

/// Relative errors of the minimax polynomials of 2^x on [0, 1): degree 3: 7.5e-5, degree 4: 2.6e-6, degree 5 with 2^0 = 1: 1.4e-7.
/// 2^-infinity is 0.
template <int Degree>
LOCKSTEP_AVX512_INLINE __m512 exp2(__m512 x) noexcept {
    static_assert(Degree >= 3 && Degree <= 5);
    __m512 const r = _mm512_reduce_ps(x, 0x09);  // x - floor(x)
    __m512       p;
    if constexpr (Degree == 3) {
        p = _mm512_fmadd_ps(_mm512_set1_ps(0.0780245227f), r, _mm512_set1_ps(0.226067155f));
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.695833541f));
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.999925219f));
    } else if constexpr (Degree == 5) {
        p = _mm512_fmadd_ps(_mm512_set1_ps(0.00186713005f), r, _mm512_set1_ps(0.00901703071f));
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.0557999127f));
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.240164444f));
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693151295f));
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    } else {
        p = _mm512_fmadd_ps(_mm512_set1_ps(0.0135341679f), r, _mm512_set1_ps(0.0520114606f));
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.241442757f));
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693003834f));
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.00000259f));
    }
    return _mm512_scalef_ps(p, x);  // p * 2^floor(x)
}

/// Of positive numbers, to the precision of float: mantissa in [0.75, 1.5), then 2/ln 2 * artanh((m - 1) / (m + 1)).
LOCKSTEP_AVX512_INLINE __m512 log2(__m512 x) noexcept {
    __m512 const m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_src);
    __m512 const e = _mm512_getexp_ps(_mm512_div_ps(x, m));
    __m512 const s = _mm512_div_ps(_mm512_sub_ps(m, _mm512_set1_ps(1.0f)), _mm512_add_ps(m, _mm512_set1_ps(1.0f)));
    __m512 const t = _mm512_mul_ps(s, s);
    __m512       p = _mm512_fmadd_ps(_mm512_set1_ps(0.320598898f), t, _mm512_set1_ps(0.412198583f));  // 2/ln 2 / 9, / 7
    p              = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0.577078016f));                             // 2/ln 2 / 5
    p              = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0.961796694f));                             // 2/ln 2 / 3
    p              = _mm512_fmadd_ps(p, t, _mm512_set1_ps(2.88539008f));                              // 2/ln 2
    return _mm512_fmadd_ps(p, s, e);
}

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
