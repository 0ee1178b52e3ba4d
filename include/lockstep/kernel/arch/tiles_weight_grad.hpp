#pragma once
// Gradient of the weight of a linear layer on tiles: dw [M,K] += dy^T x, summed over N rows (tokens).
//
// Tokens come in chunks. First whole rows of both operands are packed (long reads, which the prefetchers of the processor follow), dy
// transposed and x with pairs of rows interleaved. Then blocks of dw are computed in parallel, none shares a sum with another.

#include "lockstep/kernel/arch/panel_parts.hpp"
#include "lockstep/kernel/arch/tags.hpp"
#include "lockstep/kernel/arch/tiles_micro_kernel.hpp"
#include "lockstep/kernel/arch/tiles_pack.hpp"
#include "lockstep/kernel/arch/tiles_sinks.hpp"

#if LOCKSTEP_TILES

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/runtime/scratch.hpp"
#include "lockstep/state/layout.hpp"
#include "lockstep/tensor/view.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {

namespace detail {

// All in units of 32: tokens whose products are summed before dw is touched; those that are summed in registers, so that a panel of them
// stays in the first-level cache; those that a task packs; panels of an operand that stay in the second-level cache; panels of the other
// one that a task takes.
inline constexpr std::size_t chunk_steps = 32, chain_steps = 16, pack_steps = 4, near_panels = 12, far_panels = 48;
inline constexpr std::size_t block_elements = block_size * block_size, block_bytes = 2 * block_elements;

/// 32 tokens and 32 columns of a matrix of activations.
struct TokenBlock {
    tensor::View<bfloat16 const, 2> matrix;
    std::size_t                     token, column;

    bool whole() const noexcept { return token + block_size <= matrix.extent(0) && column + block_size <= matrix.extent(1); }

    bfloat16 const* data() const noexcept { return matrix.data() + token * matrix.stride(0) + column; }

    /// A copy with zeros where the matrix ends.
    void copy_padded(bfloat16* to) const noexcept {
        std::size_t const rows    = std::min(block_size, matrix.extent(0) - token);
        std::size_t const columns = std::min(block_size, matrix.extent(1) - column);
        std::memset(static_cast<void*>(to), 0, block_bytes);
        for (std::size_t r = 0; r < rows; ++r)
            std::memcpy(static_cast<void*>(to + r * block_size), data() + r * matrix.stride(0), columns * sizeof(bfloat16));
    }
};

enum class Operand { left_transposed, right };

/// 32 tokens of a matrix: the block of panel p goes to `to + p * panel`. What is transposed adds the sums of its columns to `sums` unless
/// that is null.
template <Operand operand>
LOCKSTEP_AVX512_LEAF void pack_tokens(tensor::View<bfloat16 const, 2> matrix, std::size_t token, bfloat16* to, std::size_t panel,
                                      float* sums) noexcept {
    alignas(64) bfloat16 padded[block_elements];
    for (std::size_t column = 0; column < matrix.extent(1); column += block_size, to += panel) {
        TokenBlock const source{matrix, token, column};
        bfloat16 const*  from   = source.data();
        std::size_t      stride = matrix.stride(0);
        if (!source.whole()) source.copy_padded(padded), from = padded, stride = block_size;
        if constexpr (operand == Operand::right)
            pack_right(from, stride, to);
        else
            pack_left_transposed(from, stride, to, sums != nullptr ? sums + column : nullptr);
    }
}

/// Adds a row of sums to dw. What lies behind the edge stays as it is, whatever the operands hold. The sides of a tile are constants here:
/// to divide by those of a MatrixMap, once a row, would take longer than the addition.
struct AddSink32 {
    float*      dw;
    std::size_t tiles_across;

    explicit AddSink32(state::Matrix<float> matrix) noexcept : dw(matrix.data), tiles_across(panels_of(matrix.columns())) {}

    /// The start of a row of 32, from a multiple of 32 on.
    float* at(std::size_t row, std::size_t column) const noexcept {
        return dw + (row / block_size * tiles_across + column / block_size) * block_elements + row % block_size * block_size;
    }

    LOCKSTEP_AVX512_INLINE void operator()(float const* sums, std::size_t row, std::size_t column, std::size_t columns) const noexcept {
        float* const to = at(row, column);
        store_lanes(to, add(load_lanes(to, columns), load_lanes(sums, columns)), columns);
    }
};

/// Packed panels of a chunk of `steps` x 32 tokens, one after another.
struct TokenPanels {
    bfloat16 const* data;
    std::size_t     steps;

    std::byte const* at(std::size_t panel, std::size_t step = 0) const noexcept {
        return reinterpret_cast<std::byte const*>(data + (panel * steps + step) * block_elements);
    }
};

/// Blocks of dw in the given rows and columns += products. The streaming operand is the one with few panels here; `strip` holds a block of
/// sums for each of them.
template <Streams streams>
LOCKSTEP_AVX512_LEAF void add_products(TokenPanels dy, TokenPanels x, state::Matrix<float> dw, PanelRange rows, PanelRange columns,
                                       float* strip) noexcept {
    TileScope const   tiles;
    AddSink32 const   sink{dw};
    Unfinished        old;
    constexpr bool    left  = streams == Streams::left;
    PanelRange const  outer = left ? columns : rows, inner = left ? rows : columns;
    TokenPanels const resident = left ? x : dy;
    for (std::size_t o = outer.first; o < outer.last; ++o) {
        LinesAhead next;
        if (o + 1 < outer.last) next = {resident.at(o + 1), 32, resident.steps, block_bytes, 32 / (inner.last - inner.first) + 1};
        for (std::size_t step = 0; step < dy.steps; step += chain_steps) {
            std::size_t const steps = std::min(chain_steps, dy.steps - step);
            bool const        last  = step + steps == dy.steps;
            for (std::size_t i = inner.first; i < inner.last; ++i) {
                std::size_t const row = (left ? i : o) * block_size, column = (left ? o : i) * block_size;
                float* const      sums = strip + (i - inner.first) * block_elements;
                LinesAhead        next_sums;
                if (last && i + 1 < inner.last) {
                    float const* const to = left ? sink.at(row + block_size, column) : sink.at(row, column + block_size);
                    next_sums             = {reinterpret_cast<std::byte const*>(to), 64, 1, 0, 64 / steps + 1};
                }
                multiply_panels<streams>(LeftPanel32{dy.at(row / block_size, step), tile_bytes, block_bytes},
                                         RightPanel32{x.at(column / block_size, step), block_bytes}, steps, steps,
                                         step == 0 ? nullptr : sums, sums, old, sink, next, next_sums, {});
                old = {sums, row, column, last ? std::min(block_size, dw.rows() - row) : 0, std::min(block_size, dw.columns() - column)};
            }
        }
    }
    finish(old, sink);
}

}  // namespace detail

/// dw += dy^T x, db += the sum of the rows of dy unless db is empty. dw lies in tiles of 32 x 32.
inline void gemm_weight_grad(tiles, tensor::View<bfloat16 const, 2> dy,  // (N,M)
                             tensor::View<bfloat16 const, 2> x,          // (N,K)
                             state::Matrix<float>            dw,         // [M,K]
                             tensor::View<float, 1>          db) {                // (M) or empty
    using namespace detail;
    std::size_t const tokens = panels_of(dy.extent(0)), rows = panels_of(dw.rows()), columns = panels_of(dw.columns());
    if (tokens == 0 || rows == 0 || columns == 0) return;
    bool const        left = rows <= columns;  // the side with fewer panels streams: its blocks are loaded anew for each part of the other
    std::size_t const near_parts = PanelParts(left ? rows : columns, near_panels).count;
    std::size_t const far =
        cut_for_tasks(left ? columns : rows, far_panels, near_parts, rows * columns * block_cost(std::min(tokens, chunk_steps)));
    PanelParts const      row_parts(rows, left ? near_panels : far), column_parts(columns, left ? far : near_panels);
    PanelParts const      chunks(tokens, chunk_steps);
    std::size_t const     sum_parts = (chunks.size + pack_steps - 1) / pack_steps, padded = rows * block_size;
    runtime::ScratchFrame frame;
    bfloat16* const       packed_dy = frame.take<bfloat16>(rows * chunks.size * block_elements).data();
    bfloat16* const       packed_x  = frame.take<bfloat16>(columns * chunks.size * block_elements).data();
    float* const          sums      = frame.take<float>(db.empty() ? 0 : sum_parts * padded).data();

    for (std::size_t chunk = 0; chunk < chunks.count; ++chunk) {
        auto const [begin, end] = chunks[chunk];
        std::size_t const first = begin, steps = end - begin;
        runtime::parallel_for(PanelParts(steps, pack_steps).count, pack_steps * (rows + columns) * 256, [&](std::size_t part) {
            float* const part_sums = db.empty() ? nullptr : sums + part * padded;
            if (part_sums != nullptr) std::fill_n(part_sums, padded, 0.0f);
            for (std::size_t step = part * pack_steps; step < std::min(steps, (part + 1) * pack_steps); ++step) {
                std::size_t const token = (first + step) * block_size;
                pack_tokens<Operand::left_transposed>(dy, token, packed_dy + step * block_elements, steps * block_elements, part_sums);
                pack_tokens<Operand::right>(x, token, packed_x + step * block_elements, steps * block_elements, nullptr);
            }
        });
        runtime::parallel_for(
            row_parts.count * column_parts.count, row_parts.size * column_parts.size * block_cost(steps), [&](std::size_t task) {
                PanelRange const row_range = row_parts[task / column_parts.count], column_range = column_parts[task % column_parts.count];
                if (row_range.first == row_range.last || column_range.first == column_range.last) return;
                runtime::ScratchFrame own;
                float* const          own_sums = own.take<float>(block_elements * near_panels).data();
                TokenPanels const     dy_panels{packed_dy, steps}, x_panels{packed_x, steps};
                if (left)
                    add_products<Streams::left>(dy_panels, x_panels, dw, row_range, column_range, own_sums);
                else
                    add_products<Streams::right>(dy_panels, x_panels, dw, row_range, column_range, own_sums);
            });
        for (std::size_t part = 0; !db.empty() && part < PanelParts(steps, pack_steps).count; ++part)
            for (std::size_t m = 0; m < dw.rows(); ++m) db(m) += sums[part * padded + m];
    }
}

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
