#pragma once
// The vector part of attention backward: weights and gradients of the scores of one block of 32 keys by 32 queries, from the sums that the
// tile unit left, as its next operands.

#include "lockstep/kernel/arch/amx_tile.hpp"

#if LOCKSTEP_TILES

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lockstep/kernel/arch/tiles_attention_pack.hpp"
#include "lockstep/kernel/arch/tiles_attention_sums.hpp"
#include "lockstep/kernel/arch/tiles_exponential.hpp"
#include "lockstep/precision/bfloat16.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {

/// One block of 32 keys by 32 queries, transposed: rows are keys.
struct GradientBlock {
    float const*         scores;        // (32, 32) K Q^T
    float const*         dweights;      // (32, 32) V dO^T
    float const*         shift;         // (32) of each query: lse * log2 e
    float const*         mean;          // (32) of each query: sum of out * dout, divided by what dropout multiplies with
    std::uint16_t const* keep;          // (32, 2) of dropout, or null
    precision::bfloat16* weights;       // 2 tiles: 16 keys, 32 queries; without those that dropout drops
    precision::bfloat16* dscores;       // 2 tiles: 16 keys, 32 queries
    precision::bfloat16* dscore_pairs;  // 2 tiles: 16 pairs of keys, 16 queries in the order of packed columns
    float                scale;         // of the scores, times log2 e
    bool                 diagonal;      // keys and queries are the same block
    std::size_t          pairs = 0;     // of keys, done so far
    std::size_t          end   = 0;     // 16, or 0 where there is nothing to do
};

namespace detail {

struct GradientRow {
    __m512i weights, dscores;  // of 32 queries
};

template <bool Drops, bool Diagonal>
LOCKSTEP_AVX512_INLINE GradientRow gradient_row(GradientBlock const& b, std::size_t k) noexcept {
    __m512 const        scale = _mm512_set1_ps(b.scale);
    std::uint32_t const sees  = seeing(k);
    __m512              weight[2], dscore[2];
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {
        __m512 p = exp2<3>(_mm512_fmsub_ps(_mm512_load_ps(b.scores + 32 * k + 16 * half), scale, _mm512_load_ps(b.shift + 16 * half)));
        if constexpr (Diagonal) p = _mm512_maskz_mov_ps(static_cast<__mmask16>(sees >> 16 * half), p);
        __m512 dp    = _mm512_load_ps(b.dweights + 32 * k + 16 * half);
        weight[half] = p;
        if constexpr (Drops) {
            __mmask16 const keep = b.keep[2 * k + half];
            dp                   = _mm512_maskz_mov_ps(keep, dp);
            weight[half]         = _mm512_maskz_mov_ps(keep, p);
        }
        dscore[half] = _mm512_mul_ps(p, _mm512_sub_ps(dp, _mm512_load_ps(b.mean + 16 * half)));
    }
    return {round_row(weight[0], weight[1]), round_row(dscore[0], dscore[1])};
}

template <bool Drops, bool Diagonal>
LOCKSTEP_AVX512_INLINE void gradient_pairs(GradientBlock& b, std::size_t stop) noexcept {
    for (; b.pairs < stop; ++b.pairs) {
        GradientRow const even = gradient_row<Drops, Diagonal>(b, 2 * b.pairs), odd = gradient_row<Drops, Diagonal>(b, 2 * b.pairs + 1);
        _mm512_store_si512(b.weights + 64 * b.pairs, even.weights);
        _mm512_store_si512(b.weights + 64 * b.pairs + 32, odd.weights);
        _mm512_store_si512(b.dscores + 64 * b.pairs, even.dscores);
        _mm512_store_si512(b.dscores + 64 * b.pairs + 32, odd.dscores);
        _mm512_store_si512(b.dscore_pairs + 32 * b.pairs, _mm512_unpacklo_epi16(even.dscores, odd.dscores));
        _mm512_store_si512(b.dscore_pairs + head_tile + 32 * b.pairs, _mm512_unpackhi_epi16(even.dscores, odd.dscores));
    }
}

/// Of blocks on the diagonal or with dropout: they take longer or are few, so that one copy serves all callers. By value, so that the
/// callers' block stays in registers.
template <bool Drops, bool Diagonal>
LOCKSTEP_AVX512_LEAF void gradient_pairs_apart(GradientBlock b, std::size_t stop) noexcept {
    gradient_pairs<Drops, Diagonal>(b, stop);
}

/// The next `count` pairs of keys.
LOCKSTEP_AVX512_INLINE void weigh(GradientBlock& b, std::size_t count) noexcept {
    std::size_t const stop = std::min(b.end, b.pairs + count);
    if (!b.diagonal && b.keep == nullptr) return gradient_pairs<false, false>(b, stop);
    if (stop <= b.pairs) return;
    if (b.keep == nullptr)
        gradient_pairs_apart<false, true>(b, stop);
    else
        b.diagonal ? gradient_pairs_apart<true, true>(b, stop) : gradient_pairs_apart<true, false>(b, stop);
    b.pairs = stop;
}

}  // namespace detail

/// mean[i] = factor * sum over columns of a * b of row first + i; shift[i] = lse * log2 e. Zeros beyond the last row.
LOCKSTEP_AVX512_LEAF inline void query_numbers(HeadRows const& a, HeadRows const& b, float const* lse, float factor, std::size_t first,
                                               float* mean, float* shift) noexcept {
    detail::BlockRows<false> const x(a, first), y(b, first);
    for (std::size_t i = 0; i < head_block; ++i) {
        __m512 sum = _mm512_setzero_ps();
        for (std::size_t g = 0; g * 32 < x.columns; ++g)
            sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x.load(i, g * 32)), reinterpret_cast<__m512bh>(y.load(i, g * 32)));
        mean[i]  = factor * _mm512_reduce_add_ps(sum);
        shift[i] = i < x.rows ? lse[first + i] * log2_e : 0.0f;
    }
}

/// Rounds sums (G, 32, 32), their columns in the order of packed columns, times `factor` into `rows` rows of `columns` elements.
LOCKSTEP_AVX512_LEAF inline void store_rows(float const* sums, float factor, precision::bfloat16* to, std::size_t stride, std::size_t rows,
                                            std::size_t columns) noexcept {
    __m512 const  f     = _mm512_set1_ps(factor);
    __m512i const order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
    for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t g = 0; g * 32 < columns; ++g) {
            float const* const from = sums + g * 1024 + row * 32;
            __m512i const both = detail::round_row(_mm512_mul_ps(_mm512_load_ps(from), f), _mm512_mul_ps(_mm512_load_ps(from + 16), f));
            _mm512_mask_storeu_epi16(to + row * stride + g * 32, detail::first_lanes(columns - g * 32),
                                     _mm512_permutexvar_epi64(order, both));
        }
}

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
