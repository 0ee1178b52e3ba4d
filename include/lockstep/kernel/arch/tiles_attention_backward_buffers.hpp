#pragma once
// What attention backward of one key/value head keeps in scratch: operands packed, sums of gradients, and how they come and go.

#include "lockstep/kernel/arch/amx_tile.hpp"

#if LOCKSTEP_TILES

#include <algorithm>
#include <cstddef>

#include "lockstep/kernel/arch/tiles_attention_gradient.hpp"
#include "lockstep/kernel/arch/tiles_attention_pack.hpp"
#include "lockstep/kernel/arch/tiles_attention_sums.hpp"
#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/runtime/scratch.hpp"

namespace lockstep::kernel::arch {

/// Rows that a gradient is written to.
struct HeadOutput {
    precision::bfloat16* data;
    std::size_t          stride;
};

/// What belongs to one query head.
struct BackwardQueries {
    HeadRows     queries, out, dout;
    HeadOutput   dqueries;
    float const* lse;  // (T)
    HeadDropout  dropout;
};

/// What belongs to one key/value head.
struct BackwardKeys {
    HeadRows   keys, values;
    HeadOutput dkeys, dvalues;
    float      scale;      // of the scores
    bool       one_query;  // head uses it
};

namespace detail {

struct BackwardBuffers {
    BackwardBuffers(BackwardKeys const& keys_and_values, runtime::ScratchFrame& frame)
        : task(keys_and_values),
          groups(task.keys.groups()),
          operand(2 * groups * head_tile),
          sums(groups * 1024),
          blocks((task.keys.rows + head_block - 1) / head_block),
          scores(frame.take<float>(2 * 1024 + apart).data()),
          dweights(frame.take<float>(2 * 1024 + apart).data()),
          weights(frame.take<precision::bfloat16>(span_keys * span_queries * 1024).data()),
          dscores(frame.take<precision::bfloat16>(span_keys * span_queries * 1024).data()),
          dscore_pairs(frame.take<precision::bfloat16>(span_keys * span_queries * 1024 + 2 * apart).data()),
          keys(frame.take<precision::bfloat16>(span_keys * operand).data()),
          keys_transposed(frame.take<precision::bfloat16>(span_keys * operand).data()),
          values(frame.take<precision::bfloat16>(span_keys * operand + 2 * apart).data()),
          dkeys(frame.take<float>((task.one_query ? span_keys : blocks) * sums).data()),
          dvalues(frame.take<float>((task.one_query ? span_keys : blocks) * sums + apart).data()),
          query_columns(frame.take<precision::bfloat16>(blocks * operand).data()),
          query_rows(frame.take<precision::bfloat16>(blocks * operand + 2 * apart).data()),
          dout_columns(frame.take<precision::bfloat16>(blocks * operand).data()),
          dout_rows(frame.take<precision::bfloat16>(blocks * operand + 2 * apart).data()),
          dqueries(frame.take<float>(blocks * sums).data()),
          mean(frame.take<float>(blocks * head_block).data()),
          shift(frame.take<float>(blocks * head_block).data()) {}

    static constexpr std::size_t apart        = 208;  // floats: what is worked on at once shall not be a multiple of a page apart
    static constexpr std::size_t span_keys    = 4;    // blocks. Larger spans load and store fewer sums, and need more room in the caches.
    static constexpr std::size_t span_queries = 8;    // blocks, at least span_keys

    LOCKSTEP_AVX512_INLINE void pack_queries(BackwardQueries const& head, std::size_t block) noexcept {
        std::size_t const row = block * head_block, to = block * operand;
        if (block + 1 < span_queries) prefetch_queries(head, block + 1);  // later ones are asked for while the spans before are computed
        pack_column_pairs(head.queries, row, query_columns + to);
        pack_row_pairs(head.queries, row, query_rows + to);
        pack_column_pairs(head.dout, row, dout_columns + to);
        pack_row_pairs(head.dout, row, dout_rows + to);
        query_numbers(head.dout, head.out, head.lse, 1 / head.dropout.kept, row, mean + row, shift + row);
    }
    LOCKSTEP_AVX512_INLINE void pack_keys(BackwardQueries const& head, std::size_t block) noexcept {
        std::size_t const row = block * head_block, to = block % span_keys * operand;
        if (block + 1 < span_keys) prefetch_keys(block + 1);
        prefetch_outputs(head, block);
        pack_row_tiles(task.keys, row, keys + to);
        pack_transposed_tiles(task.keys, row, keys_transposed + to);
        pack_row_tiles(task.values, row, values + to);
    }

    LOCKSTEP_AVX512_INLINE void prefetch_queries(BackwardQueries const& head, std::size_t block) noexcept {
        prefetch_rows(head.queries, block * head_block);
        prefetch_rows(head.dout, block * head_block);
        prefetch_rows(head.out, block * head_block);
    }
    LOCKSTEP_AVX512_INLINE void prefetch_keys(std::size_t block) noexcept {
        prefetch_rows(task.keys, block * head_block);
        prefetch_rows(task.values, block * head_block);
    }
    LOCKSTEP_AVX512_INLINE void prefetch_outputs(BackwardQueries const& head, std::size_t block) noexcept {
        for (HeadOutput to : {head.dqueries, task.dkeys, task.dvalues})
            prefetch_to_write(to.data + block * head_block * to.stride, to.stride,
                              std::min(head_block, task.keys.rows - block * head_block), groups);
    }

    LOCKSTEP_AVX512_INLINE void store_queries(BackwardQueries const& head, std::size_t block) noexcept {
        alignas(64) float factor[head_block];
        std::fill_n(factor, head_block, task.scale * head.dropout.kept);
        std::size_t const row = block * head_block;
        store_transposed(dqueries + block * sums, factor, head.dqueries.data + row * head.dqueries.stride, head.dqueries.stride,
                         std::min(head_block, task.keys.rows - row), task.keys.columns);
    }
    LOCKSTEP_AVX512_INLINE void store_keys(BackwardQueries const& head, std::size_t block) noexcept {
        std::size_t const row = block * head_block, rows = std::min(head_block, task.keys.rows - row), at = key_sums(block);
        store_rows(dkeys + at, task.scale * head.dropout.kept, task.dkeys.data + row * task.dkeys.stride, task.dkeys.stride, rows,
                   task.keys.columns);
        store_rows(dvalues + at, head.dropout.kept, task.dvalues.data + row * task.dvalues.stride, task.dvalues.stride, rows,
                   task.keys.columns);
    }
    std::size_t key_sums(std::size_t block) const noexcept { return (task.one_query ? block % span_keys : block) * sums; }

    BackwardKeys const   task;
    std::size_t const    groups;           // of 32 columns
    std::size_t const    operand;          // elements of a packed block
    std::size_t const    sums;             // floats of the sums of a block
    std::size_t          blocks;           // of 32 rows of the sequence
    float*               scores;           // 2 blocks
    float*               dweights;         // 2 blocks
    precision::bfloat16* weights;          // (span_keys, span_queries) blocks of 2 tiles, see GradientBlock
    precision::bfloat16* dscores;          // the same
    precision::bfloat16* dscore_pairs;     // the same
    precision::bfloat16* keys;             // span_keys blocks of row tiles
    precision::bfloat16* keys_transposed;  // span_keys blocks of transposed tiles
    precision::bfloat16* values;           // span_keys blocks of row tiles
    float*               dkeys;            // span_keys blocks, or all where several query heads add to them: (G, 32, 32) each
    float*               dvalues;
    precision::bfloat16* query_columns;  // all blocks, column pairs
    precision::bfloat16* query_rows;     // row pairs
    precision::bfloat16* dout_columns;
    precision::bfloat16* dout_rows;
    float*               dqueries;  // all blocks, (32 G, 32) each, transposed
    float*               mean;      // (T)
    float*               shift;     // (T)
};

}  // namespace detail
}  // namespace lockstep::kernel::arch

#endif
