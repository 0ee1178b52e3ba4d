#pragma once
// Transposes a square of floats held in registers: packing turns rows of steps into rows of lanes with it.

#include <array>
#include <cstddef>

#include "lockstep/kernel/arch/simd_batch.hpp"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {

/// One square: row i is a batch.
using Square = std::array<Batch, width>;

/// Row i becomes column i.
inline void transpose(Square& square) noexcept {
#if defined(__AVX512F__)
    __m512 a[16], b[16];
    for (std::size_t i = 0; i < 16; i += 2) {  // pairs of rows: 2 x 2 squares
        a[i]     = _mm512_unpacklo_ps(square[i], square[i + 1]);
        a[i + 1] = _mm512_unpackhi_ps(square[i], square[i + 1]);
    }
    for (std::size_t i = 0; i < 16; i += 4)  // groups of four: row 4g+j holds column 4q+j of rows 4g.. in its quarter q
        for (std::size_t j = 0; j < 2; ++j) {
            b[i + 2 * j]     = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a[i + j]), _mm512_castps_pd(a[i + 2 + j])));
            b[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a[i + j]), _mm512_castps_pd(a[i + 2 + j])));
        }
    for (std::size_t j = 0; j < 4; ++j) {                                  // a 4 x 4 transpose of whole quarters
        __m512 const even01 = _mm512_shuffle_f32x4(b[j], b[4 + j], 0x88);  // quarters 0, 2 of groups 0 and 1
        __m512 const odd01  = _mm512_shuffle_f32x4(b[j], b[4 + j], 0xDD);  // quarters 1, 3
        __m512 const even23 = _mm512_shuffle_f32x4(b[8 + j], b[12 + j], 0x88);
        __m512 const odd23  = _mm512_shuffle_f32x4(b[8 + j], b[12 + j], 0xDD);
        square[j]           = Batch(_mm512_shuffle_f32x4(even01, even23, 0x88));
        square[4 + j]       = Batch(_mm512_shuffle_f32x4(odd01, odd23, 0x88));
        square[8 + j]       = Batch(_mm512_shuffle_f32x4(even01, even23, 0xDD));
        square[12 + j]      = Batch(_mm512_shuffle_f32x4(odd01, odd23, 0xDD));
    }
#elif defined(__AVX__)
    __m256 a[8], b[8];
    for (std::size_t i = 0; i < 8; i += 2) {
        a[i]     = _mm256_unpacklo_ps(square[i], square[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(square[i], square[i + 1]);
    }
    for (std::size_t i = 0; i < 8; i += 4)
        for (std::size_t j = 0; j < 2; ++j) {
            b[i + 2 * j]     = _mm256_shuffle_ps(a[i + j], a[i + 2 + j], 0x44);
            b[i + 2 * j + 1] = _mm256_shuffle_ps(a[i + j], a[i + 2 + j], 0xEE);
        }
    for (std::size_t j = 0; j < 4; ++j) {
        square[j]     = Batch(_mm256_permute2f128_ps(b[j], b[4 + j], 0x20));
        square[4 + j] = Batch(_mm256_permute2f128_ps(b[j], b[4 + j], 0x31));
    }
#else
    alignas(64) std::array<float, width * width> rows;
    alignas(64) std::array<float, width>         column;
    for (std::size_t i = 0; i < width; ++i) store(rows.data() + i * width, square[i]);
    for (std::size_t j = 0; j < width; ++j) {
        for (std::size_t i = 0; i < width; ++i) column[i] = rows[i * width + j];
        square[j] = load(column.data());
    }
#endif
}

}  // namespace lockstep::kernel::arch

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
