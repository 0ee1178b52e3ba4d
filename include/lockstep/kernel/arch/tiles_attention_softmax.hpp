#pragma once
// The vector part of attention forward: the running softmax of 32 queries, one in each lane, over rows of transposed scores.

#include "lockstep/kernel/arch/amx_tile.hpp"

#if LOCKSTEP_TILES

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

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

/// Two halves of 16 queries.
struct RunningSoftmax {
    __m512 top[2];      // of the scores, at most `slack` below the largest so far
    __m512 shift[2];    // top * scale
    __m512 total[2];    // of the weights
    __m512 largest[2];  // of the present rows
    float  scale;       // of the scores, times log2 e
    float  slack;       // 8 / scale of the scores

    float*               scores;         // (2 * end, 32) rows are keys
    precision::bfloat16* weights;        // of each block of 32 keys 2 tiles: 16 pairs of keys, 16 queries in the order of packed columns
    std::uint16_t const* keep;           // (2 * end, 2) of dropout, or null
    std::size_t          pairs = 0;      // of keys, done so far
    std::size_t          end   = 0;      // 16 or 32
    bool                 last  = false;  // the last block of keys is that of the queries
};

namespace detail {

/// The largest scores of the present rows, after those of keys behind their query are made -infinity.
LOCKSTEP_AVX512_INLINE void find_largest(RunningSoftmax& s) noexcept {
    __m512 const      none = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
    __m512            a[2] = {none, none}, b[2] = {none, none};
    std::size_t const seen = 2 * s.end - (s.last ? head_block : 0);
    for (std::size_t k = 0; k < seen; k += 2) {
#pragma GCC unroll 2
        for (std::size_t half = 0; half < 2; ++half) {
            a[half] = _mm512_max_ps(a[half], _mm512_load_ps(s.scores + k * 32 + 16 * half));
            b[half] = _mm512_max_ps(b[half], _mm512_load_ps(s.scores + k * 32 + 32 + 16 * half));
        }
    }
    if (s.last) {
        for (std::size_t k = 0; k < head_block; ++k) {
            std::uint32_t const sees = seeing(k);
#pragma GCC unroll 2
            for (std::size_t half = 0; half < 2; ++half) {
                float* const at    = s.scores + (seen + k) * 32 + 16 * half;
                __m512 const score = _mm512_mask_mov_ps(none, static_cast<__mmask16>(sees >> 16 * half), _mm512_load_ps(at));
                _mm512_store_ps(at, score);
                a[half] = _mm512_max_ps(a[half], score);
            }
        }
    }
    for (std::size_t half = 0; half < 2; ++half) s.largest[half] = _mm512_max_ps(a[half], b[half]);
}

LOCKSTEP_AVX512_INLINE void start(RunningSoftmax& s) noexcept {
    find_largest(s);
    for (std::size_t half = 0; half < 2; ++half) {
        s.top[half]   = s.largest[half];
        s.shift[half] = _mm512_mul_ps(s.top[half], _mm512_set1_ps(s.scale));
        s.total[half] = _mm512_setzero_ps();
    }
}

LOCKSTEP_AVX512_INLINE __mmask16 rising(RunningSoftmax const& s, std::size_t half) noexcept {
    return _mm512_cmp_ps_mask(s.largest[half], _mm512_add_ps(s.top[half], _mm512_set1_ps(s.slack)), _CMP_GT_OQ);
}

/// Whether a score exceeds the kept one by more than 8. Until then weights just exceed 1, which loses nothing.
LOCKSTEP_AVX512_INLINE bool must_rescale(RunningSoftmax& s) noexcept {
    find_largest(s);
    return (rising(s, 0) | rising(s, 1)) != 0;
}

/// Takes the larger maximum where it must be, and leaves the other queries as they are: they may not depend on later ones.
/// sums (rows, 32), their columns in the order of packed columns.
LOCKSTEP_AVX512_INLINE void rescale(RunningSoftmax& s, float* sums, std::size_t rows) noexcept {
    __m512 shrink[2];
    for (std::size_t half = 0; half < 2; ++half) {
        __mmask16 const up    = rising(s, half);
        __m512 const    shift = _mm512_mul_ps(s.largest[half], _mm512_set1_ps(s.scale));
        shrink[half]          = _mm512_mask_mov_ps(_mm512_set1_ps(1.0f), up, exp2<4>(_mm512_sub_ps(s.shift[half], shift)));
        s.top[half]           = _mm512_mask_mov_ps(s.top[half], up, s.largest[half]);
        s.shift[half]         = _mm512_mask_mov_ps(s.shift[half], up, shift);
        s.total[half]         = _mm512_mul_ps(s.total[half], shrink[half]);
    }
    __m512 const low = half_of(0, shrink[0], shrink[1]), high = half_of(1, shrink[0], shrink[1]);
    for (float* at = sums; at < sums + rows * 32; at += 32) {
        _mm512_store_ps(at, _mm512_mul_ps(_mm512_load_ps(at), low));
        _mm512_store_ps(at + 16, _mm512_mul_ps(_mm512_load_ps(at + 16), high));
    }
}

template <bool Drops>
LOCKSTEP_AVX512_INLINE void weigh_until(RunningSoftmax& s, std::size_t stop) noexcept {
    __m512 const scale = _mm512_set1_ps(s.scale);
    for (; s.pairs < stop; ++s.pairs) {
        float const* const         from = s.scores + s.pairs * 64;
        precision::bfloat16* const to   = s.weights + s.pairs / 16 * 2 * head_tile + s.pairs % 16 * 32;
        __m512i                    row[2];
#pragma GCC unroll 2
        for (std::size_t k = 0; k < 2; ++k) {
            __m512 weight[2];
#pragma GCC unroll 2
            for (std::size_t half = 0; half < 2; ++half) {
                weight[half]  = exp2<4>(_mm512_fmsub_ps(_mm512_load_ps(from + 32 * k + 16 * half), scale, s.shift[half]));
                s.total[half] = _mm512_add_ps(s.total[half], weight[half]);
                if constexpr (Drops) weight[half] = _mm512_maskz_mov_ps(s.keep[4 * s.pairs + 2 * k + half], weight[half]);
            }
            row[k] = round_row(weight[0], weight[1]);
        }
        _mm512_store_si512(to, _mm512_unpacklo_epi16(row[0], row[1]));
        _mm512_store_si512(to + head_tile, _mm512_unpackhi_epi16(row[0], row[1]));
    }
}

/// Weights and their sums of the next `count` pairs of keys.
LOCKSTEP_AVX512_INLINE void weigh(RunningSoftmax& s, std::size_t count) noexcept {
    std::size_t const stop = std::min(s.end, s.pairs + count);
    if (s.keep != nullptr)
        weigh_until<true>(s, stop);
    else
        weigh_until<false>(s, stop);
}

/// Writes the log-sum-exp of the first `rows` queries, and kept / total of all.
LOCKSTEP_AVX512_INLINE void finish(RunningSoftmax const& s, float* lse, std::size_t rows, float kept, float* factor) noexcept {
    std::uint32_t const there = first_lanes(rows);
    for (std::size_t half = 0; half < 2; ++half) {
        __m512 const log = _mm512_mul_ps(_mm512_add_ps(s.shift[half], log2(s.total[half])), _mm512_set1_ps(ln_2));
        _mm512_mask_storeu_ps(lse + 16 * half, static_cast<__mmask16>(there >> 16 * half), log);
        _mm512_store_ps(factor + 16 * half, _mm512_div_ps(_mm512_set1_ps(kept), s.total[half]));
    }
}

}  // namespace detail
}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
