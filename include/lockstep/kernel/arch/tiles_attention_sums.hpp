#pragma once
// Products of blocks of 32 x 32, and what both directions of attention do with the sums.

#include "lockstep/kernel/arch/amx_tile.hpp"

#if LOCKSTEP_TILES

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "lockstep/core/random.hpp"
#include "lockstep/kernel/arch/tiles_attention_pack.hpp"
#include "lockstep/precision/bfloat16.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {

inline constexpr float ln_2 = 0.693147181f;

/// Dropout of one head: weight (query, key) is element first + query * stride + key.
struct HeadDropout {
    RandomKey     key;
    std::uint32_t threshold;  // 0: nothing is dropped
    float         kept;       // what the others are multiplied with
    std::uint64_t first;
    std::uint64_t stride;
};

/// Which operand streams through: it shall not displace what the first-level cache holds.
enum class TileStreams { neither, left, right };

namespace detail {

/// Without a tile unit: to (32, 32) = (start or 0) + A B.
LOCKSTEP_AVX512_LEAF inline void add_products_in_vectors(precision::bfloat16 const* a, std::size_t a_step, precision::bfloat16 const* b,
                                                         std::size_t b_step, float const* start, float* to) noexcept {
    RightTiles const right{reinterpret_cast<std::byte const*>(b), reinterpret_cast<std::byte const*>(b + b_step), 0};
    for (std::size_t half = 0; half < 2; ++half)
        multiply_vectors({reinterpret_cast<std::byte const*>(a + half * a_step), 64, 0}, right, 1,
                         start != nullptr ? start + half * 512 : nullptr, to + half * 512);
}

/// Sums (32, 32) of floats, row by row: in tiles 0 to 3 from the beginning to `store`, or without a tile unit where they belong.
class BlockSums {
public:
    /// Begins with zeros, or with what is there.
    LOCKSTEP_AVX512_INLINE BlockSums(float* to, bool zeros) noexcept : to_(to), start_(zeros ? nullptr : to) {
        if (without_tile_unit()) return;
        if (zeros) {
            tile_zero<0>();
            tile_zero<1>();
            tile_zero<2>();
            tile_zero<3>();
        } else {
            tile_load<0>(to, 128);
            tile_load<1>(to + 16, 128);
            tile_load<2>(to + 512, 128);
            tile_load<3>(to + 528, 128);
        }
    }

    /// Sums += A B: A of tiles a and a + a_step (upper and lower half), B of tiles b and b + b_step (left and right half).
    template <TileStreams S = TileStreams::neither>
    LOCKSTEP_AVX512_INLINE void add_products(precision::bfloat16 const* a, std::size_t a_step, precision::bfloat16 const* b,
                                             std::size_t b_step) noexcept {
        if (without_tile_unit()) {
            add_products_in_vectors(a, a_step, b, b_step, start_, to_);
            start_ = to_;
            return;
        }
        if constexpr (S == TileStreams::left) {
            tile_load_streaming<4>(a, 64);
            tile_load<6>(b, 64);
            tile_multiply<0, 4, 6>();
            tile_load<7>(b + b_step, 64);
            tile_multiply<1, 4, 7>();
            tile_load_streaming<5>(a + a_step, 64);
        } else {
            tile_load<4>(a, 64);
            if constexpr (S == TileStreams::right)
                tile_load_streaming<6>(b, 64);
            else
                tile_load<6>(b, 64);
            tile_multiply<0, 4, 6>();
            if constexpr (S == TileStreams::right)
                tile_load_streaming<7>(b + b_step, 64);
            else
                tile_load<7>(b + b_step, 64);
            tile_multiply<1, 4, 7>();
            tile_load<5>(a + a_step, 64);
        }
        tile_multiply<2, 5, 6>();
        tile_multiply<3, 5, 7>();
    }

    /// Of at least one product.
    LOCKSTEP_AVX512_INLINE void store() const noexcept {
        if (without_tile_unit()) return;
        tile_store<0>(to_, 128);
        tile_store<1>(to_ + 16, 128);
        tile_store<2>(to_ + 512, 128);
        tile_store<3>(to_ + 528, 128);
    }

private:
    float*       to_;
    float const* start_;  // null: zeros
};

/// Pairs (low[i], high[i]) of 16 floats each, rounded.
LOCKSTEP_AVX512_INLINE __m512i round_pairs(__m512 low, __m512 high) noexcept {
    __m512i const order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3,
                                           18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
}

/// 32 floats, rounded.
LOCKSTEP_AVX512_INLINE __m512i round_row(__m512 low, __m512 high) noexcept {
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

/// Of 32 numbers, those that UNPCKLO or UNPCKHI of words of 16 bits would take: the order of the columns of packed operands.
LOCKSTEP_AVX512_INLINE __m512 half_of(std::size_t half, __m512 low, __m512 high) noexcept {
    return half == 0 ? _mm512_shuffle_f32x4(low, high, 0x88) : _mm512_shuffle_f32x4(low, high, 0xdd);
}

/// Bit q < 32: query q of a block sees key k of the same block.
LOCKSTEP_AVX512_INLINE std::uint32_t seeing(std::size_t k) noexcept { return ~0u << k; }

}  // namespace detail

/// Rounds sums (32 G, 32), transposed, times `scale` of each row of the result, into `rows` rows of `columns` elements. The rows and
/// columns of the sums are in the order that packing gives to columns.
LOCKSTEP_AVX512_LEAF inline void store_transposed(float const* sums, float const* scale, precision::bfloat16* to, std::size_t stride,
                                                  std::size_t rows, std::size_t columns) noexcept {
    for (std::size_t half = 0; half < 2; ++half) {
        __m512 const factor = detail::half_of(half, _mm512_loadu_ps(scale), _mm512_loadu_ps(scale + 16));
        for (std::size_t g = 0; g * 32 < columns; ++g) {
            float const* const from = sums + g * 1024 + half * 16;
            __m512i            r[16];
#pragma GCC unroll 16
            for (std::size_t i = 0; i < 16; ++i) {
                float const* const at = from + (i / 2 % 2 * 16 + i / 4 * 4 + i % 2 * 2) * 32;  // of column 2 i
                r[i] = detail::round_pairs(_mm512_mul_ps(_mm512_load_ps(at), factor), _mm512_mul_ps(_mm512_load_ps(at + 32), factor));
            }
            detail::transpose(r);
            __mmask32 const lanes = detail::first_lanes(columns - g * 32);
#pragma GCC unroll 16
            for (std::size_t i = 0; i < 16; ++i) {
                std::size_t const row = i / 4 * 8 + half * 4 + i % 4;
                if (row < rows) _mm512_mask_storeu_epi16(to + row * stride + g * 32, lanes, r[i]);
            }
        }
    }
}

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
