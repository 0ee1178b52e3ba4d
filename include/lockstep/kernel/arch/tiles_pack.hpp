#pragma once
// Rearranging bfloat16 for the tile unit. The right operand wants pairs of rows interleaved, the left one rows as they are.

#include "lockstep/kernel/arch/amx_tile.hpp"

#if LOCKSTEP_TILES

#include <immintrin.h>

#include <cstddef>

#include "lockstep/precision/bfloat16.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {

using precision::bfloat16;

namespace detail {

/// Rows 4g + i of 16 rows of 16 words of 32 bits each, for g = 0 .. 3: their words 4 chunk .. 4 chunk + 3, side by side.
LOCKSTEP_AVX512_INLINE __m512i gather_chunks(std::byte const* from, std::size_t row_bytes) noexcept {
    auto const at = [&](std::size_t g) { return reinterpret_cast<__m128i const*>(from + 4 * g * row_bytes); };
    __m512i    x  = _mm512_castsi128_si512(_mm_loadu_si128(at(0)));
    x             = _mm512_mask_broadcast_i32x4(x, 0x00F0, _mm_loadu_si128(at(1)));
    x             = _mm512_mask_broadcast_i32x4(x, 0x0F00, _mm_loadu_si128(at(2)));
    return _mm512_mask_broadcast_i32x4(x, 0xF000, _mm_loadu_si128(at(3)));
}

struct Rows4 {
    __m512i row[4];
};

/// Columns 4 chunk .. 4 chunk + 3 of 16 rows of 16 words: four rows of the transpose.
LOCKSTEP_AVX512_INLINE Rows4 transpose_chunk(std::byte const* from, std::size_t row_bytes, std::size_t chunk) noexcept {
    from += 16 * chunk;
    __m512i const r0 = gather_chunks(from, row_bytes), r1 = gather_chunks(from + row_bytes, row_bytes);
    __m512i const r2 = gather_chunks(from + 2 * row_bytes, row_bytes), r3 = gather_chunks(from + 3 * row_bytes, row_bytes);
    __m512i const low01 = _mm512_unpacklo_epi32(r0, r1), low23 = _mm512_unpacklo_epi32(r2, r3);
    __m512i const high01 = _mm512_unpackhi_epi32(r0, r1), high23 = _mm512_unpackhi_epi32(r2, r3);
    return {{_mm512_unpacklo_epi64(low01, low23), _mm512_unpackhi_epi64(low01, low23), _mm512_unpacklo_epi64(high01, high23),
             _mm512_unpackhi_epi64(high01, high23)}};
}

/// 16 rows of 16 words of 32 bits, transposed; rows of the result are 64 bytes apart.
LOCKSTEP_AVX512_INLINE void transpose_words(std::byte const* from, std::size_t row_bytes, std::byte* to) noexcept {
    for (std::size_t chunk = 0; chunk < 4; ++chunk) {
        Rows4 const rows = transpose_chunk(from, row_bytes, chunk);
        for (std::size_t i = 0; i < 4; ++i) _mm512_storeu_si512(to + (4 * chunk + i) * 64, rows.row[i]);
    }
}

struct Pair {
    __m512i low, high;
};

/// Words of 32 bits that belong to columns 0-3, 8-11, 16-19, 24-27 and to the others, as unpacking leaves them: those of columns 0 .. 15
/// and of columns 16 .. 31.
LOCKSTEP_AVX512_INLINE Pair in_order(__m512i low, __m512i high) noexcept {
    __m512i const first  = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    __m512i const second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    return {_mm512_permutex2var_epi64(low, first, high), _mm512_permutex2var_epi64(low, second, high)};
}

/// Two rows of 32 words of 16 bits: pairs (a[c], b[c]) of c = 0 .. 15 and of c = 16 .. 31.
LOCKSTEP_AVX512_INLINE Pair interleave(__m512i a, __m512i b) noexcept {
    return in_order(_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b));
}

/// 16 floats to the bits of bfloat16, as precision::bfloat16 rounds them (VCVTNEPS2BF16 would drop denormals).
LOCKSTEP_AVX512_INLINE __m256i round_to_bfloat16(__m512 x) noexcept {
    __m512i const   u       = _mm512_castps_si512(x);
    __m512i const   odd     = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i const   rounded = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7FFF)), odd);
    __mmask16 const nan     = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    __m512i const   kept    = _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16));
}

/// 32 rows of 32 elements as a tile pair of the right operand: pairs of rows interleaved, 16 columns a tile.
LOCKSTEP_AVX512_INLINE void pack_right(bfloat16 const* from, std::size_t stride, bfloat16* to) noexcept {
    for (std::size_t r = 0; r < 16; ++r, from += 2 * stride) {
        Pair const pairs = interleave(_mm512_loadu_si512(from), _mm512_loadu_si512(from + stride));
        _mm512_storeu_si512(to + 32 * r, pairs.low);
        _mm512_storeu_si512(to + 32 * r + 512, pairs.high);
    }
}

/// 32 rows of 32 elements, transposed, as a tile pair of the left operand: the first 16 columns are the rows of the first tile. The sum of
/// each column is added to `sums` unless that is null, by VDPBF16PS from the pairs at hand: denormals count as zero.
LOCKSTEP_AVX512_INLINE void pack_left_transposed(bfloat16 const* from, std::size_t stride, bfloat16* to, float* sums = nullptr) noexcept {
    alignas(64) __m512i pairs[32];  // two of a pair of rows: its columns 0-3, 8-11, 16-19, 24-27 and the others
    auto const          ones = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3F803F80));
    __m512              low = _mm512_setzero_ps(), high = _mm512_setzero_ps();
    for (std::size_t r = 0; r < 16; ++r, from += 2 * stride) {
        __m512i const a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + stride);
        pairs[2 * r]     = _mm512_unpacklo_epi16(a, b);
        pairs[2 * r + 1] = _mm512_unpackhi_epi16(a, b);
        if (sums == nullptr) continue;
        low  = _mm512_dpbf16_ps(low, reinterpret_cast<__m512bh>(pairs[2 * r]), ones);
        high = _mm512_dpbf16_ps(high, reinterpret_cast<__m512bh>(pairs[2 * r + 1]), ones);
    }
    if (sums != nullptr) {
        Pair const sum = in_order(_mm512_castps_si512(low), _mm512_castps_si512(high));
        _mm512_storeu_ps(sums, _mm512_add_ps(_mm512_loadu_ps(sums), _mm512_castsi512_ps(sum.low)));
        _mm512_storeu_ps(sums + 16, _mm512_add_ps(_mm512_loadu_ps(sums + 16), _mm512_castsi512_ps(sum.high)));
    }
    for (std::size_t chunk = 0; chunk < 8; ++chunk) {
        Rows4 const rows = transpose_chunk(reinterpret_cast<std::byte const*>(pairs + chunk % 2), 128, chunk / 2);
        for (std::size_t i = 0; i < 4; ++i) _mm512_storeu_si512(to + (4 * chunk + i) * 32, rows.row[i]);
    }
}

}  // namespace detail

/// Both copies of the tiles of a weight, see weight_copies.hpp.
LOCKSTEP_AVX512_LEAF inline void pack_master_tiles(float const* masters, std::size_t tiles, bfloat16* forward,
                                                   bfloat16* backward) noexcept {
    alignas(64) __m512i rows[32];
    for (std::size_t tile = 0; tile < tiles; ++tile, masters += 1024, forward += 1024, backward += 1024) {
        for (std::size_t r = 0; r < 32; ++r)
            rows[r] = _mm512_inserti64x4(_mm512_castsi256_si512(detail::round_to_bfloat16(_mm512_loadu_ps(masters + 32 * r))),
                                         detail::round_to_bfloat16(_mm512_loadu_ps(masters + 32 * r + 16)), 1);
        for (std::size_t r = 0; r < 16; ++r) {
            detail::Pair const pairs = detail::interleave(rows[2 * r], rows[2 * r + 1]);
            _mm512_storeu_si512(backward + 32 * r, pairs.low);
            _mm512_storeu_si512(backward + 32 * r + 512, pairs.high);
        }
        for (std::size_t half = 0; half < 2; ++half)
            detail::transpose_words(reinterpret_cast<std::byte const*>(rows + 16 * half), 64,
                                    reinterpret_cast<std::byte*>(forward + 512 * half));
    }
}

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
