#pragma once
// Attention forward in blocks of queries and keys with a running softmax (Dao et al. 2022, arXiv:2205.14135). Vectors run along the
// queries: scores, weights and output are kept transposed, so the softmax needs no sum across lanes and keys and values are used as they
// lie.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "lockstep/kernel/arch/simd_batch.hpp"
#include "lockstep/kernel/arch/simd_dropout.hpp"
#include "lockstep/kernel/arch/simd_strip.hpp"
#include "lockstep/kernel/arch/tags.hpp"
#include "lockstep/kernel/attention_shape.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/runtime/scratch.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel {
namespace detail {

/// Queries and keys of a block. A whole number of strips.
inline constexpr std::size_t query_block = 64;
inline constexpr std::size_t key_block   = 64;
inline constexpr std::size_t query_span  = 256;  // of a task of forward: keys and values are loaded once for all of them
static_assert(query_span % arch::strip == 0 && query_block % arch::strip == 0);
static_assert(key_block % arch::strip == 0 && arch::strip % arch::tile_rows == 0);

template <class T>
concept simd_readable = arch::simd_element<std::remove_const_t<T>>;

/// Keys of block k0 that some query of the strip at q0 may read.
constexpr std::size_t visible_keys(std::size_t T, std::size_t q0, std::size_t k0) noexcept {
    std::size_t const end = std::min({T, k0 + key_block, q0 + arch::strip});
    return end > k0 ? end - k0 : 0;
}

/// Writes -infinity where key k0 + row lies after query q0 + lane. scores (rows, strip)
inline void mask_future(float* scores, std::size_t stride, std::size_t q0, std::size_t k0, std::size_t rows) noexcept {
    arch::Batch const never(-std::numeric_limits<float>::infinity());
    for (std::size_t row = k0 > q0 ? 0 : q0 + 1 - k0; row < rows; ++row) {
        arch::Batch const first(static_cast<float>(k0 + row - q0));  // lanes before it may not see the key
        for (std::size_t v = 0; v < arch::strip; v += arch::width) {
            float* const      at    = scores + row * stride + v;
            arch::Batch const lanes = arch::lane_numbers() + arch::Batch(static_cast<float>(v));
            arch::store(at, xsimd::select(lanes < first, never, arch::load(at)));
        }
    }
}

/// Factors of the weights of queries q0 .. q0+strip-1 and keys k0 .. k0+rows-1; 0 where the key lies after the query. to (rows, strip)
inline void drop_factors(DropFactor const& factor, AttentionShape s, AttentionDropout const& dropout, std::size_t b, std::size_t h,
                         std::size_t q0, std::size_t k0, std::size_t rows, float* to) {
    runtime::ScratchFrame frame;
    float* const          factors = frame.take<float>(arch::strip * key_block).data();  // (strip, key_block)
    float const           kept    = static_cast<float>(factor.kept);
    arch::RandomWords     words;
    for (std::size_t lane = 0; lane < arch::strip; ++lane) {
        std::uint64_t element = dropout_row(s, dropout, b, h, q0 + lane) + k0;
        float*        at      = factors + lane * key_block;
        float* const  end     = at + rows;
        float* const  seen    = at + std::min(rows, q0 + lane + 1 > k0 ? q0 + lane + 1 - k0 : 0);
        while (at < seen) {
            std::size_t const skip  = element % 4;
            std::size_t const count = std::min(words.size() - skip, static_cast<std::size_t>(seen - at));
            arch::random_words(arch::simd{}, factor.key, element / 4, words);
            for (std::size_t i = 0; i < count; ++i) at[i] = words[skip + i] < factor.threshold ? 0.0f : kept;
            at += count;
            element += count;
        }
        std::fill(at, end, 0.0f);
    }
    arch::transpose_into_strip(factors, key_block, arch::strip, rows, 1.0f, to);
}

/// Running softmax of one strip of queries.
struct StripState {
    float* largest;  // (strip)
    float* total;    // (strip)
    float* sum;      // (D, strip) weighted sum of the values
};

/// Turns scores (rows, strip) into exp(score - largest so far) and rescales the state to the new largest.
inline void advance_softmax(StripState state, float* scores, std::size_t rows, std::size_t D, bool first) noexcept {
    for (std::size_t v = 0; v < arch::strip; v += arch::width) {
        arch::Batch top = arch::load(scores + v);
        for (std::size_t row = 1; row < rows; ++row) top = arch::larger(top, arch::load(scores + row * arch::strip + v));
        arch::Batch total(0.0f);
        if (!first) {
            arch::Batch const before = arch::load(state.largest + v);
            top                      = arch::larger(top, before);
            arch::Batch const shrink = arch::exp(before - top);
            total                    = shrink * arch::load(state.total + v);
            for (std::size_t j = 0; j < D; ++j)
                arch::store(state.sum + j * arch::strip + v, shrink * arch::load(state.sum + j * arch::strip + v));
        }
        for (std::size_t row = 0; row < rows; ++row) {
            arch::Batch const weight = arch::exp(arch::load(scores + row * arch::strip + v) - top);
            total += weight;
            arch::store(scores + row * arch::strip + v, weight);
        }
        arch::store(state.largest + v, top);
        arch::store(state.total + v, total);
    }
}

/// One head of one sequence, queries q0 .. q0+query_span-1.
template <class X, class Y, class L>
void forward_block(AttentionShape s, tensor::View<X, 2> qkv, tensor::View<Y, 2> out, tensor::View<L, 2> lse,
                   AttentionDropout const& dropout, DropFactor const& factor, std::size_t b, std::size_t h, std::size_t q0) {
    constexpr std::size_t W     = arch::strip;
    std::size_t const     T     = s.sequence;
    std::size_t const     D     = s.head_size;
    std::size_t const     kc    = s.key_column(h / s.group());
    std::size_t const     vc    = s.value_column(h / s.group());
    std::size_t const     q_end = std::min(T, q0 + query_span);
    float const           scale = 1.0f / std::sqrt(static_cast<float>(D));

    runtime::ScratchFrame frame;
    float* const          queries = frame.take<float>(query_span * D).data();  // (strips, D, W)
    float* const          sums    = frame.take<float>(query_span * D).data();  // (strips, D, W)
    float* const          largest = frame.take<float>(query_span).data();
    float* const          total   = frame.take<float>(query_span).data();
    float* const          keys    = frame.take<float>(key_block * D).data();
    float* const          values  = frame.take<float>(key_block * D).data();
    float* const          scores  = frame.take<float>(key_block * W).data();  // (key_block, W)
    float* const          drops   = frame.take<float>(factor.active() ? key_block * W : 0).data();

    for (std::size_t qs = q0; qs < q_end; qs += W) {
        std::size_t const count = std::min(W, T - qs);
        arch::transpose_into_strip(&qkv(b * T + qs, h * D), qkv.stride(0), count, D, scale, queries + (qs - q0) * D);
        std::fill_n(sums + (qs - q0) * D, W * D, 0.0f);
    }
    for (std::size_t k0 = 0; k0 < q_end; k0 += key_block) {
        for (std::size_t k = k0; k < std::min(q_end, k0 + key_block); ++k) {
            arch::widen(&qkv(b * T + k, kc), D, 1.0f, keys + (k - k0) * D);
            arch::widen(&qkv(b * T + k, vc), D, 1.0f, values + (k - k0) * D);
        }
        for (std::size_t qs = q0; qs < q_end; qs += W) {
            std::size_t const visible = visible_keys(T, qs, k0);
            if (visible == 0) continue;
            StripState const state{largest + (qs - q0), total + (qs - q0), sums + (qs - q0) * D};
            arch::multiply_strip({keys, D, 1}, queries + (qs - q0) * D, W, visible, D, scores, W);
            mask_future(scores, W, qs, k0, visible);
            advance_softmax(state, scores, visible, D, k0 == 0);
            if (factor.active()) {
                drop_factors(factor, s, dropout, b, h, qs, k0, visible, drops);
                for (std::size_t i = 0; i < visible * W; i += arch::width)
                    arch::store(scores + i, arch::load(scores + i) * arch::load(drops + i));
            }
            arch::add_strip({values, 1, D}, scores, W, D, visible, state.sum, W);
        }
    }
    for (std::size_t qs = q0; qs < q_end; qs += W) {
        std::size_t const count = std::min(W, T - qs);
        for (std::size_t i = 0; i < count; ++i) lse(b * s.heads + h, qs + i) = largest[qs - q0 + i] + std::log(total[qs - q0 + i]);
        for (std::size_t v = qs - q0; v < qs - q0 + W; v += arch::width) arch::store(total + v, arch::Batch(1.0f) / arch::load(total + v));
        arch::transpose_from_strip(sums + (qs - q0) * D, total + (qs - q0), count, D, &out(b * T + qs, h * D), out.stride(0));
    }
}

}  // namespace detail

template <detail::simd_readable X, arch::simd_element Y>
void attention_forward(arch::simd, AttentionShape s, tensor::View<X, 2> qkv, tensor::View<Y, 2> out, tensor::View<float, 2> lse,
                       AttentionDropout const& dropout) {
    detail::DropFactor const factor(dropout);
    std::size_t const        blocks = (s.sequence + detail::query_span - 1) / detail::query_span;
    std::size_t const        span   = std::min(s.sequence, detail::query_span);
    runtime::parallel_for(s.batch * s.heads * blocks, span * s.sequence * s.head_size / 8, [&](std::size_t block) {
        std::size_t const head = block / blocks;
        detail::forward_block(s, qkv, out, lse, dropout, factor, head / s.heads, head % s.heads,
                              (blocks - 1 - block % blocks) * detail::query_span);  // the longest first
    });
}

}  // namespace lockstep::kernel
