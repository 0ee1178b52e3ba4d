#pragma once
// Attention backward in blocks, the weights recomputed from the log-sum-exp (Dao et al. 2022, arXiv:2205.14135, algorithm 4, queries
// outside). One task owns a key/value head of a sequence: its gradients stay in scratch until all query heads of the group have added
// theirs, in order.

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "lockstep/kernel/arch/simd_attention.hpp"
#include "lockstep/kernel/arch/simd_batch.hpp"
#include "lockstep/kernel/arch/simd_strip.hpp"
#include "lockstep/kernel/arch/tags.hpp"
#include "lockstep/kernel/attention_shape.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/runtime/scratch.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel {
namespace detail {

/// Keys, values and their gradients of one head, and the blocks that a query block needs. P columns are D padded to whole vectors.
struct BackwardScratch {
    BackwardScratch(runtime::ScratchFrame& frame, std::size_t T, std::size_t D, bool drops)
        : P((D + arch::width - 1) / arch::width * arch::width),
          keys(frame.take<float>(T * D).data()),
          values(frame.take<float>(T * D).data()),
          dkeys(frame.take<float>(T * P).data()),
          dvalues(frame.take<float>(T * P).data()),
          query_strips(frame.take<float>(query_block * D).data()),
          dout_strips(frame.take<float>(query_block * D).data()),
          dquery_strips(frame.take<float>(query_block * D).data()),
          queries(frame.take<float>(query_block * P).data()),
          douts(frame.take<float>(query_block * P).data()),
          log_sum(frame.take<float>(query_block).data()),
          mean(frame.take<float>(query_block).data()),
          weights(frame.take<float>(key_block * query_block).data()),
          dscores(frame.take<float>(key_block * query_block).data()),
          factors(frame.take<float>(drops ? key_block * arch::strip : 0).data()) {}

    std::size_t P;
    float*      keys;           // (T, D)
    float*      values;         // (T, D)
    float*      dkeys;          // (T, P)
    float*      dvalues;        // (T, P)
    float*      query_strips;   // (strips, D, strip) scaled by 1/sqrt(D)
    float*      dout_strips;    // (strips, D, strip)
    float*      dquery_strips;  // (strips, D, strip)
    float*      queries;        // (query_block, P) scaled by 1/sqrt(D)
    float*      douts;          // (query_block, P)
    float*      log_sum;        // (query_block)
    float*      mean;           // (query_block) sum over keys of weight * gradient of the weight = sum of dout * out
    float*      weights;        // (key_block, query_block)
    float*      dscores;        // (key_block, query_block)
    float*      factors;        // (key_block, strip) of dropout
};

/// scores (rows, strip) and dweights (rows, strip), in: as multiplied out; out: weights times dropout factor, gradients of the scores.
inline void weights_and_dscores(float* scores, float* dweights, float const* factors, float const* log_sum, float const* mean,
                                std::size_t rows) noexcept {
    for (std::size_t v = 0; v < arch::strip; v += arch::width) {
        arch::Batch const lse = arch::load(log_sum + v);
        arch::Batch const sub = arch::load(mean + v);
        for (std::size_t row = 0; row < rows; ++row) {
            float* const      score   = scores + row * query_block + v;
            float* const      dweight = dweights + row * query_block + v;
            arch::Batch const weight  = arch::exp(arch::load(score) - lse);
            arch::Batch const factor  = factors == nullptr ? arch::Batch(1.0f) : arch::load(factors + row * arch::strip + v);
            arch::store(dweight, weight * (factor * arch::load(dweight) - sub));
            arch::store(score, weight * factor);
        }
    }
}

/// Loads what a block of `count` queries of head h needs.
template <class X, class O, class DO>
void load_queries(BackwardScratch const& m, AttentionShape s, tensor::View<X, 2> qkv, tensor::View<O, 2> out, tensor::View<DO, 2> dout,
                  tensor::View<float const, 2> lse, std::size_t b, std::size_t h, std::size_t q0, std::size_t count) {
    constexpr std::size_t W     = arch::strip;
    std::size_t const     D     = s.head_size;
    std::size_t const     n     = b * s.sequence + q0;
    float const           scale = 1.0f / std::sqrt(static_cast<float>(D));
    for (std::size_t i = 0; i < count; ++i) {
        float* const query = m.queries + i * m.P;
        float* const d     = m.douts + i * m.P;
        std::fill(query + D, query + m.P, 0.0f);
        std::fill(d + D, d + m.P, 0.0f);
        arch::widen(&qkv(n + i, h * D), D, scale, query);
        arch::widen(&dout(n + i, h * D), D, 1.0f, d);

        arch::Batch    sum(0.0f);
        std::size_t    j = 0;
        O const* const o = &out(n + i, h * D);
        for (; j + arch::width <= D; j += arch::width) sum = arch::fused(arch::load(d + j), arch::load(o + j), sum);
        if (j < D) sum = arch::fused(arch::load(d + j), arch::load(o + j, D - j), sum);
        m.mean[i]    = arch::horizontal_sum(sum);
        m.log_sum[i] = lse(b * s.heads + h, q0 + i);
    }
    std::fill(m.mean + count, m.mean + query_block, 0.0f);
    std::fill(m.log_sum + count, m.log_sum + query_block, 0.0f);
    for (std::size_t i = 0; i < count; i += W) {
        arch::transpose_into_strip(m.queries + i * m.P, m.P, std::min(W, count - i), D, 1.0f, m.query_strips + i * D);
        arch::transpose_into_strip(m.douts + i * m.P, m.P, std::min(W, count - i), D, 1.0f, m.dout_strips + i * D);
        std::fill_n(m.dquery_strips + i * D, W * D, 0.0f);
    }
}

/// Adds what `count` queries from q0 on and the keys of block k0 give to the gradients of queries, keys and values.
inline void add_block(BackwardScratch const& m, AttentionShape s, AttentionDropout const& dropout, DropFactor const& factor, std::size_t b,
                      std::size_t h, std::size_t q0, std::size_t count, std::size_t k0) {
    std::size_t const T      = s.sequence;
    std::size_t const D      = s.head_size;
    float* const      keys   = m.keys + k0 * D;
    float* const      values = m.values + k0 * D;
    for (std::size_t i = 0; i < count; i += arch::strip) {
        std::size_t const visible = visible_keys(T, q0 + i, k0);
        if (visible == 0) continue;
        arch::multiply_strip({keys, D, 1}, m.query_strips + i * D, arch::strip, visible, D, m.weights + i, query_block);
        arch::multiply_strip({values, D, 1}, m.dout_strips + i * D, arch::strip, visible, D, m.dscores + i, query_block);
        mask_future(m.weights + i, query_block, q0 + i, k0, visible);
        if (factor.active()) drop_factors(factor, s, dropout, b, h, q0 + i, k0, visible, m.factors);
        weights_and_dscores(m.weights + i, m.dscores + i, factor.active() ? m.factors : nullptr, m.log_sum + i, m.mean + i, visible);
        arch::add_strip({keys, 1, D}, m.dscores + i, query_block, D, visible, m.dquery_strips + i * D, arch::strip);
    }
    // A group of rows of keys starts its sum at its first key: earlier queries do not see it, and their weights may be unset.
    std::size_t const rows  = std::min({key_block, T - k0, q0 + count - k0});
    std::size_t const group = k0 + key_block <= q0 ? key_block : arch::tile_rows;
    for (std::size_t r = 0; r < rows; r += group) {
        std::size_t const first = k0 + r > q0 ? k0 + r - q0 : 0;
        std::size_t const n     = std::min(group, rows - r);
        std::size_t const from  = r * query_block + first;
        arch::add_product({m.weights + from, query_block, 1}, m.douts + first * m.P, m.P, n, count - first, m.P, m.dvalues + (k0 + r) * m.P,
                          m.P);
        arch::add_product({m.dscores + from, query_block, 1}, m.queries + first * m.P, m.P, n, count - first, m.P, m.dkeys + (k0 + r) * m.P,
                          m.P);
    }
}

}  // namespace detail

template <detail::simd_readable X, detail::simd_readable O, detail::simd_readable DO, detail::simd_readable L, arch::simd_element DX>
void attention_backward(arch::simd, AttentionShape s, tensor::View<X, 2> qkv, tensor::View<O, 2> out, tensor::View<DO, 2> dout,
                        tensor::View<L, 2> lse, tensor::View<DX, 2> dqkv, AttentionDropout const& dropout) {
    detail::DropFactor const factor(dropout);
    std::size_t const        T = s.sequence;
    std::size_t const        D = s.head_size;

    runtime::parallel_for(s.batch * s.kv_heads, s.group() * T * T * D / 4, [&](std::size_t block) {
        std::size_t const             b  = block / s.kv_heads;
        std::size_t const             g  = block % s.kv_heads;
        std::size_t const             kc = s.key_column(g);
        std::size_t const             vc = s.value_column(g);
        runtime::ScratchFrame         frame;
        detail::BackwardScratch const m(frame, T, D, factor.active());
        for (std::size_t t = 0; t < T; ++t) {
            arch::widen(&qkv(b * T + t, kc), D, 1.0f, m.keys + t * D);
            arch::widen(&qkv(b * T + t, vc), D, 1.0f, m.values + t * D);
        }
        std::fill_n(m.dkeys, T * m.P, 0.0f);
        std::fill_n(m.dvalues, T * m.P, 0.0f);

        float scale[arch::strip];
        std::fill_n(scale, arch::strip, 1.0f / std::sqrt(static_cast<float>(D)));
        for (std::size_t h = g * s.group(); h < (g + 1) * s.group(); ++h) {
            for (std::size_t q0 = 0; q0 < T; q0 += detail::query_block) {
                std::size_t const count = std::min(detail::query_block, T - q0);
                detail::load_queries<X, O, DO>(m, s, qkv, out, dout, lse, b, h, q0, count);
                for (std::size_t k0 = 0; k0 < q0 + count; k0 += detail::key_block)
                    detail::add_block(m, s, dropout, factor, b, h, q0, count, k0);
                for (std::size_t i = 0; i < count; i += arch::strip)
                    arch::transpose_from_strip(m.dquery_strips + i * D, scale, std::min(arch::strip, count - i), D,
                                               &dqkv(b * T + q0 + i, h * D), dqkv.stride(0));
            }
        }
        for (std::size_t t = 0; t < T; ++t) {
            arch::narrow(m.dkeys + t * m.P, D, &dqkv(b * T + t, kc));
            arch::narrow(m.dvalues + t * m.P, D, &dqkv(b * T + t, vc));
        }
    });
}

}  // namespace lockstep::kernel
