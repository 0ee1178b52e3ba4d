#pragma once
// Blocks of 32 rows of one attention head (queries, keys, values or gradients) as operands of the tile unit.
//
// A tile is 16 rows of 64 bytes. With X a block of 32 rows, G the number of groups of 32 columns that the head is padded to with zeros:
//   row tiles         A of X      tile (half of the rows, group)      16 rows, 32 columns
//   column pairs      B of X^T    tile (half of the rows, group)      16 pairs of columns, 16 rows
//   transposed tiles  A of X^T    tile (group, half of its columns)   16 columns, 32 rows
//   row pairs         B of X      tile (group, half of its columns)   16 pairs of rows, 16 columns
// The halves of 32 columns are those of UNPCKLO and UNPCKHI: 0-3, 8-11, 16-19, 24-27 and 4-7, 12-15, 20-23, 28-31.

#include "lockstep/kernel/arch/amx_tile.hpp"

#if LOCKSTEP_TILES

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "lockstep/precision/bfloat16.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {

inline constexpr std::size_t head_block = 32;   // rows of a block
inline constexpr std::size_t head_tile  = 512;  // elements of a tile

/// One head of one sequence. Rows and columns beyond the last count as zeros.
struct HeadRows {
    precision::bfloat16 const* data;
    std::size_t                stride;  // in elements
    std::size_t                rows;
    std::size_t                columns;

    std::size_t groups() const noexcept { return (columns + 31) / 32; }
};

namespace detail {

/// 32 rows of a head from `first` < x.rows on. Whole: no row and no column is missing.
template <bool Whole>
struct BlockRows {
    BlockRows(HeadRows const& x, std::size_t first) noexcept
        : data(x.data + first * x.stride), stride(x.stride), rows(x.rows - first), columns(x.columns) {}

    /// 32 columns of a row, from `column` < columns on.
    LOCKSTEP_AVX512_INLINE __m512i load(std::size_t row, std::size_t column) const noexcept {
        if constexpr (Whole)
            return _mm512_loadu_si512(data + row * stride + column);
        else
            return row < rows ? _mm512_maskz_loadu_epi16(first_lanes(columns - column), data + row * stride + column)
                              : _mm512_setzero_si512();
    }

    precision::bfloat16 const* data;
    std::size_t                stride, rows, columns;
};

inline bool whole(HeadRows const& x, std::size_t first) noexcept { return first + head_block <= x.rows && x.columns % 32 == 0; }

/// Transposes 16 x 16 words of 32 bits.
LOCKSTEP_AVX512_INLINE void transpose(__m512i (&r)[16]) noexcept {
    __m512i t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        t[i]     = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        r[i]     = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        t[i]      = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4]  = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8]  = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        r[i]      = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 4]  = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 8]  = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
        r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

template <bool Whole>
LOCKSTEP_AVX512_INLINE void row_tiles(BlockRows<Whole> x, std::size_t groups, precision::bfloat16* to) noexcept {
    for (std::size_t row = 0; row < head_block; ++row)
        for (std::size_t g = 0; g < groups; ++g)
            _mm512_store_si512(to + (row / 16 * groups + g) * head_tile + row % 16 * 32, x.load(row, g * 32));
}

template <bool Whole>
LOCKSTEP_AVX512_INLINE void column_pairs(BlockRows<Whole> x, std::size_t groups, precision::bfloat16* to) noexcept {
    for (std::size_t half = 0; half < 2; ++half)
        for (std::size_t g = 0; g < groups; ++g, to += head_tile) {
            __m512i r[16];
#pragma GCC unroll 16
            for (std::size_t i = 0; i < 16; ++i) r[i] = x.load(half * 16 + i, g * 32);
            transpose(r);
#pragma GCC unroll 16
            for (std::size_t i = 0; i < 16; ++i) _mm512_store_si512(to + i * 32, r[i]);
        }
}

template <bool Whole>
LOCKSTEP_AVX512_INLINE void transposed_tiles(BlockRows<Whole> x, std::size_t groups, precision::bfloat16* to) noexcept {
    for (std::size_t tile = 0; tile < 2 * groups; ++tile) {
        __m512i r[16];
#pragma GCC unroll 16
        for (std::size_t i = 0; i < 16; ++i) {
            __m512i const even = x.load(2 * i, tile / 2 * 32), odd = x.load(2 * i + 1, tile / 2 * 32);
            r[i] = tile % 2 == 0 ? _mm512_unpacklo_epi16(even, odd) : _mm512_unpackhi_epi16(even, odd);
        }
        transpose(r);
#pragma GCC unroll 16
        for (std::size_t i = 0; i < 16; ++i) _mm512_store_si512(to + tile * head_tile + i * 32, r[i]);
    }
}

template <bool Whole>
LOCKSTEP_AVX512_INLINE void row_pairs(BlockRows<Whole> x, std::size_t groups, precision::bfloat16* to) noexcept {
    for (std::size_t i = 0; i < 16; ++i)
        for (std::size_t g = 0; g < groups; ++g) {
            __m512i const even = x.load(2 * i, g * 32), odd = x.load(2 * i + 1, g * 32);
            _mm512_store_si512(to + 2 * g * head_tile + i * 32, _mm512_unpacklo_epi16(even, odd));
            _mm512_store_si512(to + (2 * g + 1) * head_tile + i * 32, _mm512_unpackhi_epi16(even, odd));
        }
}

}  // namespace detail

/// Asks for rows first .. first+31 of x, where there are any: they lie too far apart for the machine to see them coming.
LOCKSTEP_AVX512_INLINE void prefetch_rows(HeadRows const& x, std::size_t first) noexcept {
    std::size_t const groups = x.groups();
    std::size_t const end    = first + head_block < x.rows ? first + head_block : x.rows;
    for (std::size_t row = first; row < end; ++row)
        for (std::size_t g = 0; g < groups; ++g) _mm_prefetch(x.data + row * x.stride + g * 32, _MM_HINT_T1);
}

/// The same for rows that are about to be written.
LOCKSTEP_AVX512_INLINE void prefetch_to_write(precision::bfloat16* to, std::size_t stride, std::size_t rows, std::size_t groups) noexcept {
    for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t g = 0; g < groups; ++g) asm volatile("prefetchw %0" : : "m"(to[row * stride + g * 32]));
}

/// Rows first .. first+31 of x, 2 G tiles; first < x.rows.
LOCKSTEP_AVX512_LEAF inline void pack_row_tiles(HeadRows const& x, std::size_t first, precision::bfloat16* to) noexcept {
    if (detail::whole(x, first))
        detail::row_tiles(detail::BlockRows<true>(x, first), x.groups(), to);
    else
        detail::row_tiles(detail::BlockRows<false>(x, first), x.groups(), to);
}

LOCKSTEP_AVX512_LEAF inline void pack_column_pairs(HeadRows const& x, std::size_t first, precision::bfloat16* to) noexcept {
    if (detail::whole(x, first))
        detail::column_pairs(detail::BlockRows<true>(x, first), x.groups(), to);
    else
        detail::column_pairs(detail::BlockRows<false>(x, first), x.groups(), to);
}

LOCKSTEP_AVX512_LEAF inline void pack_transposed_tiles(HeadRows const& x, std::size_t first, precision::bfloat16* to) noexcept {
    if (detail::whole(x, first))
        detail::transposed_tiles(detail::BlockRows<true>(x, first), x.groups(), to);
    else
        detail::transposed_tiles(detail::BlockRows<false>(x, first), x.groups(), to);
}

LOCKSTEP_AVX512_LEAF inline void pack_row_pairs(HeadRows const& x, std::size_t first, precision::bfloat16* to) noexcept {
    if (detail::whole(x, first))
        detail::row_pairs(detail::BlockRows<true>(x, first), x.groups(), to);
    else
        detail::row_pairs(detail::BlockRows<false>(x, first), x.groups(), to);
}

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
