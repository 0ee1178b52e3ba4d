#pragma once
// Attention backward of one key/value head in tiles (Dao et al. 2022, arXiv:2205.14135, algorithm 4, keys outside), with transposed
// scores. Of spans of 128 keys by 256 queries: S^T = K Q^T and dP^T = V dO^T, the weights P^T from the log-sum-exp, dS^T = P^T (dP^T -
// mean); then dV += P^T dO, dK += dS^T Q and dQ^T += K^T dS^T take P^T and dS^T as they are. While the vectors work on a block of 32 by 32,
// the tile unit multiplies the next.

#include "lockstep/kernel/arch/amx_tile.hpp"

#if LOCKSTEP_TILES

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lockstep/kernel/arch/tiles_attention_backward_buffers.hpp"
#include "lockstep/kernel/arch/tiles_attention_dropout.hpp"
#include "lockstep/kernel/arch/tiles_attention_gradient.hpp"
#include "lockstep/kernel/arch/tiles_attention_pack.hpp"
#include "lockstep/kernel/arch/tiles_attention_sums.hpp"
#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/runtime/scratch.hpp"

namespace lockstep::kernel::arch {

namespace detail {

class BackwardPass {
public:
    BackwardPass(BackwardKeys const& task, runtime::ScratchFrame& frame) : m(task, frame) {}

    /// Adds one query head: the first starts the sums of the keys' gradients, the last writes them.
    LOCKSTEP_AVX512_INLINE void run(BackwardQueries const& head, bool first, bool last) noexcept {
        for (std::size_t k = 0; k < m.blocks; k += span_keys) {
            std::size_t const k_end = std::min(m.blocks, k + span_keys);
            for (std::size_t block = k; block < k_end; ++block) m.pack_keys(head, block);
            for (std::size_t q = k; q < m.blocks; q += span_queries) {
                std::size_t const q_end = std::min(m.blocks, q + span_queries);
                if (k == 0)  // all queries see the first keys
                    for (std::size_t block = q; block < q_end; ++block) m.pack_queries(head, block);
                add_span({k, q, k_end - k, q_end - q, first && q == k}, head);
                if (q == k)  // these queries see no more keys
                    for (std::size_t block = k; block < k_end; ++block) m.store_queries(head, block);
            }
            if (last)
                for (std::size_t block = k; block < k_end; ++block) m.store_keys(head, block);
        }
    }

private:
    using Buffers                             = BackwardBuffers;
    static constexpr std::size_t span_keys    = Buffers::span_keys;
    static constexpr std::size_t span_queries = Buffers::span_queries;

    /// Blocks key .. key+keys-1 and query .. query+queries-1.
    struct Span {
        std::size_t key, query, keys, queries;
        bool        fresh;  // the first that adds to its keys' gradients
        bool        sees(std::size_t k, std::size_t q) const noexcept { return key + k <= query + q; }
    };
    /// A block of a span.
    struct Block {
        std::size_t k, q;
    };

    LOCKSTEP_AVX512_INLINE void add_span(Span s, BackwardQueries const& head) noexcept {
        Block       block[span_keys * span_queries] = {};
        std::size_t count                           = 0;
        for (std::size_t q = 0; q < s.queries; ++q)
            for (std::size_t k = 0; k < s.keys; ++k)
                if (s.sees(k, q)) block[count++] = {k, q};

        GradientBlock work{};
        multiply(s, block[0], 0, work, 0);
        for (std::size_t i = 0; i < count; ++i) {
            begin(work, s, block[i], i % 2, head);
            if (i + 1 < count) {
                multiply(s, block[i + 1], (i + 1) % 2, work, share_of(2 * m.groups));
            } else {  // only the last queries need this block
                for (std::size_t q = 0; q + 1 < s.queries; ++q) add_queries(s, q, work, share_of(m.groups * s.keys * (s.queries - 1)));
            }
            weigh(work, 16);
        }
        work.end = 0;
        add_queries(s, s.queries - 1, work, 0);
        for (std::size_t k = 0; k < s.keys; ++k) add_keys(s, k);
    }

    /// Pairs of keys to weigh at each of `steps` steps of the tile unit.
    static constexpr std::size_t share_of(std::size_t steps) noexcept { return (15 + steps) / steps; }

    /// Scores and gradients of the weights of a block.
    LOCKSTEP_AVX512_INLINE void multiply(Span s, Block b, std::size_t buffer, GradientBlock& work, std::size_t share) noexcept {
        std::size_t const q = (s.query + b.q) * m.operand;
        BlockSums         scores(m.scores + buffer * 1024, true);
        for (std::size_t g = 0; g < m.groups * head_tile; g += head_tile) {
            scores.add_products<TileStreams::right>(m.keys + b.k * m.operand + g, m.groups * head_tile, m.query_columns + q + g,
                                                    m.groups * head_tile);
            weigh(work, share);
        }
        scores.store();
        BlockSums dweights(m.dweights + buffer * 1024, true);
        for (std::size_t g = 0; g < m.groups * head_tile; g += head_tile) {
            dweights.add_products<TileStreams::right>(m.values + b.k * m.operand + g, m.groups * head_tile, m.dout_columns + q + g,
                                                      m.groups * head_tile);
            weigh(work, share);
        }
        dweights.store();
    }

    LOCKSTEP_AVX512_INLINE void begin(GradientBlock& work, Span s, Block b, std::size_t buffer, BackwardQueries const& head) noexcept {
        std::size_t const query = (s.query + b.q) * head_block, key = (s.key + b.k) * head_block, at = (b.k * span_queries + b.q) * 1024;
        if (s.key == 0 && b.k == 0) m.prefetch_queries(head, s.query + span_queries + b.q);
        if (s.key == s.query && b.k == 0 && b.q < span_keys) m.prefetch_keys(s.key + span_keys + b.q);
        bool const drops = head.dropout.threshold != 0;
        if (drops)
            kept_weights(head.dropout.key, head.dropout.threshold, head.dropout.first + query * head.dropout.stride + key,
                         head.dropout.stride, keep_);
        work = {m.scores + buffer * 1024,
                m.dweights + buffer * 1024,
                m.shift + query,
                m.mean + query,
                drops ? keep_ : nullptr,
                m.weights + at,
                m.dscores + at,
                m.dscore_pairs + at,
                m.task.scale * log2_e,
                key == query,
                0,
                16};
    }

    /// dV += P^T dO and dK += dS^T Q of one block of keys.
    LOCKSTEP_AVX512_INLINE void add_keys(Span s, std::size_t k) noexcept {
        std::size_t const at = m.key_sums(s.key + k);
        for (std::size_t g = 0; g < m.groups; ++g) {
            add_to_keys(s, k, g, m.weights, m.dout_rows, m.dvalues + at + g * 1024);
            add_to_keys(s, k, g, m.dscores, m.query_rows, m.dkeys + at + g * 1024);
        }
    }
    LOCKSTEP_AVX512_INLINE void add_to_keys(Span s, std::size_t k, std::size_t g, precision::bfloat16 const* left,
                                            precision::bfloat16 const* right, float* to) noexcept {
        BlockSums sums(to, s.fresh);
        for (std::size_t q = 0; q < s.queries; ++q) {
            if (!s.sees(k, q)) continue;
            sums.add_products<TileStreams::right>(left + (k * span_queries + q) * 1024, head_tile,
                                                  right + (s.query + q) * m.operand + 2 * g * head_tile, head_tile);
        }
        sums.store();
    }

    /// dQ^T += K^T dS^T of one block of queries.
    LOCKSTEP_AVX512_INLINE void add_queries(Span s, std::size_t q, GradientBlock& work, std::size_t share) noexcept {
        for (std::size_t g = 0; g < m.groups; ++g) {
            float* const to = m.dqueries + (s.query + q) * m.sums + g * 1024;
            BlockSums    sums(to, s.key == 0);
            for (std::size_t k = 0; k < s.keys; ++k) {
                if (!s.sees(k, q)) continue;
                sums.add_products(m.keys_transposed + k * m.operand + 2 * g * head_tile, head_tile,
                                  m.dscore_pairs + (k * span_queries + q) * 1024, head_tile);
                weigh(work, share);
            }
            sums.store();
        }
    }

    Buffers       m;
    std::uint16_t keep_[64];
};

}  // namespace detail
}  // namespace lockstep::kernel::arch

#endif
