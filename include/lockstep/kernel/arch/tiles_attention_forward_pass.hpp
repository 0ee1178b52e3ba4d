#pragma once
// Attention forward of one head in tiles, with transposed scores: S^T = K Q^T, so that the softmax runs down the rows, one query in
// each lane, and the weights P^T are the right operand of O^T += V^T P^T as they are (Dao et al. 2022, arXiv:2205.14135, for the running
// softmax). The queries' blocks are cut into items of up to 64 keys. While the weights of one item are computed in vectors, the tile unit
// works on the scores of the next and the output of the one before.

#include "lockstep/kernel/arch/amx_tile.hpp"

#if LOCKSTEP_TILES

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lockstep/kernel/arch/tiles_attention_dropout.hpp"
#include "lockstep/kernel/arch/tiles_attention_pack.hpp"
#include "lockstep/kernel/arch/tiles_attention_softmax.hpp"
#include "lockstep/kernel/arch/tiles_attention_sums.hpp"
#include "lockstep/kernel/arch/tiles_exponential.hpp"
#include "lockstep/kernel/denormals.hpp"
#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/runtime/scratch.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {

/// Queries begin .. end-1 (in blocks) of one head.
struct ForwardTask {
    HeadRows             queries, keys, values;
    precision::bfloat16* out;  // of query 0
    std::size_t          out_stride;
    float*               lse;    // (T)
    float                scale;  // of the scores
    HeadDropout          dropout;
    std::size_t          begin, end;
};

namespace detail {

class ForwardPass {
public:
    ForwardPass(ForwardTask const& task, runtime::ScratchFrame& frame)
        : task_(task),
          groups_(task.queries.groups()),
          operand_(2 * groups_ * head_tile),
          sums_(frame.take<float>(groups_ * 1024 + apart).data()),
          scores_(frame.take<float>(2 * item_scores + apart).data()),
          weights_(frame.take<precision::bfloat16>(2 * item_scores + 2 * apart).data()),
          queries_(frame.take<precision::bfloat16>(2 * operand_ + 2 * apart).data()),
          keys_(frame.take<precision::bfloat16>(task.end * operand_).data()),
          values_(frame.take<precision::bfloat16>(task.end * operand_).data()) {}

    LOCKSTEP_AVX512_INLINE void run() noexcept {
        for (std::size_t block = 0; block < task_.begin; ++block) pack_keys(block);
        RunningSoftmax softmax{};
        Item           before, now = first_of(task_.begin);
        softmax.scale = task_.scale * log2_e;
        softmax.slack = 8 / task_.scale;
        pack(now);
        for (std::size_t b = 0; b < now.blocks; ++b) {
            BlockSums sums(scores(now) + b * 1024, true);
            for (std::size_t g = 0; g < groups_; ++g) add_scores(sums, now, b, g);
            sums.store();
        }
        while (now.blocks > 0) {
            Item const next = after(now);
            if (next.blocks > 0 && next.key == 0) pack(next);
            bool const drops = task_.dropout.threshold != 0;
            if (drops) draw(now);
            softmax.scores  = scores(now);
            softmax.weights = weights(now);
            softmax.keep    = drops ? keep_ : nullptr;
            softmax.pairs   = 0;
            softmax.end     = now.blocks * 16;
            softmax.last    = now.last;
            if (now.key == 0) {
                start(softmax);
            } else if (must_rescale(softmax)) {
                add_outputs(before, softmax, 0);
                before.blocks = 0;
                rescale(softmax, sums_, groups_ * 32);
            }
            std::size_t const steps = (next.blocks + before.blocks) * groups_;
            std::size_t const share = steps == 0 ? 0 : (softmax.end + steps - 1) / steps;
            for (std::size_t b = 0; b < next.blocks; ++b) {
                BlockSums sums(scores(next) + b * 1024, true);
                for (std::size_t g = 0; g < groups_; ++g) {
                    add_scores(sums, next, b, g);
                    weigh(softmax, share);
                }
                sums.store();
            }
            add_outputs(before, softmax, share);
            weigh(softmax, softmax.end);
            if (before.blocks > 0 && before.last) store(before);
            if (now.last) finish(softmax, task_.lse + now.query * head_block, rows(now), task_.dropout.kept, factor_);
            before = now;
            now    = next;
        }
        add_outputs(before, softmax, 0);
        store(before);
    }

private:
    static constexpr std::size_t item_scores = 2 * head_block * head_block;
    static constexpr std::size_t apart       = 208;  // floats: what is worked on at once shall not be a multiple of a page apart

    /// Up to two blocks of keys for one block of queries.
    struct Item {
        std::size_t query = 0, key = 0, blocks = 0, number = 0;
        bool        last = false;  // of the query block: its last block of keys is the diagonal
    };
    Item item(std::size_t query, std::size_t key, std::size_t number) const noexcept {
        if (query == task_.end) return {};
        std::size_t const blocks = std::min<std::size_t>(2, query + 1 - key);
        return {query, key, blocks, number, key + blocks == query + 1};
    }
    Item first_of(std::size_t query) const noexcept { return item(query, 0, 0); }
    Item after(Item i) const noexcept { return i.last ? item(i.query + 1, 0, i.number + 1) : item(i.query, i.key + 2, i.number + 1); }

    LOCKSTEP_AVX512_INLINE void pack_keys(std::size_t block) noexcept {
        prefetch_rows(task_.keys, (block + 1) * head_block);
        prefetch_rows(task_.values, (block + 1) * head_block);
        pack_row_tiles(task_.keys, block * head_block, keys_ + block * operand_);
        pack_transposed_tiles(task_.values, block * head_block, values_ + block * operand_);
    }
    /// The queries of an item, and the keys that they are the first to see.
    LOCKSTEP_AVX512_INLINE void pack(Item i) noexcept {
        std::size_t const row = i.query * head_block;
        prefetch_to_write(task_.out + row * task_.out_stride, task_.out_stride, rows(i), groups_);
        prefetch_rows(task_.queries, row + head_block);
        pack_column_pairs(task_.queries, i.query * head_block, queries(i));
        pack_keys(i.query);
    }

    precision::bfloat16* queries(Item i) const noexcept { return queries_ + i.query % 2 * operand_; }
    float*               scores(Item i) const noexcept { return scores_ + i.number % 2 * item_scores; }
    precision::bfloat16* weights(Item i) const noexcept { return weights_ + i.number % 2 * item_scores; }
    std::size_t          rows(Item i) const noexcept { return std::min(head_block, task_.queries.rows - i.query * head_block); }

    LOCKSTEP_AVX512_INLINE void add_scores(BlockSums& sums, Item i, std::size_t b, std::size_t g) noexcept {
        sums.add_products<TileStreams::left>(keys_ + (i.key + b) * operand_ + g * head_tile, groups_ * head_tile,
                                             queries(i) + g * head_tile, groups_ * head_tile);
    }

    /// O^T += V^T P^T of an item, `share` pairs of keys of the softmax after each step.
    LOCKSTEP_AVX512_INLINE void add_outputs(Item i, RunningSoftmax& softmax, std::size_t share) noexcept {
        if (i.blocks == 0) return;
        for (std::size_t g = 0; g < groups_; ++g) {
            BlockSums sums(sums_ + g * 1024, i.key == 0);
            for (std::size_t b = 0; b < i.blocks; ++b) {
                sums.add_products<TileStreams::left>(values_ + (i.key + b) * operand_ + 2 * g * head_tile, head_tile,
                                                     weights(i) + b * 2 * head_tile, head_tile);
                weigh(softmax, share);
            }
            sums.store();
        }
    }

    LOCKSTEP_AVX512_INLINE void store(Item i) noexcept {
        std::size_t const query = i.query * head_block;
        store_transposed(sums_, factor_, task_.out + query * task_.out_stride, task_.out_stride, rows(i), task_.queries.columns);
    }
    LOCKSTEP_AVX512_INLINE void draw(Item i) noexcept {
        for (std::size_t b = 0; b < i.blocks; ++b)
            kept_weights(task_.dropout.key, task_.dropout.threshold,
                         task_.dropout.first + i.query * head_block * task_.dropout.stride + (i.key + b) * head_block, task_.dropout.stride,
                         keep_ + b * 64);
    }

    ForwardTask const    task_;
    std::size_t const    groups_;   // of 32 columns
    std::size_t const    operand_;  // elements of a packed block
    float*               sums_;     // (32 groups, 32) O^T of the block of queries
    float*               scores_;   // 2 items, (64, 32) each
    precision::bfloat16* weights_;  // 2 items of 2 blocks, 2 tiles each: pairs of keys, 16 queries
    precision::bfloat16* queries_;  // 2 blocks in column pairs
    precision::bfloat16* keys_;     // row tiles
    precision::bfloat16* values_;   // transposed tiles
    alignas(64) float factor_[32];  // of the sums of the last block finished
    std::uint16_t keep_[128];       // of the item: 2 halves of the queries for each key
};

}  // namespace detail

/// One head, or a part of its queries.
LOCKSTEP_AVX512_LEAF inline void attention_forward_head(ForwardTask const& task) {
    runtime::ScratchFrame  frame;
    detail::ForwardPass    pass(task, frame);
    DenormalsAreZero const flush;
    TileScope const        tiles;
    pass.run();
}

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
