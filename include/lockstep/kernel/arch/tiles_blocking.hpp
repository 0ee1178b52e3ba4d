#pragma once
// A product with a packed right operand, in blocks that fit the caches: out(row, column) = sum over steps of left(row, step) right(step,
// column).
//
// Panels of one operand fill the second-level cache and stream from it; panels of the other one lie in the first level, one after
// another. Long sums are cut into chunks, whose sums wait in memory in blocks of 32 x 32.

#include "lockstep/kernel/arch/tiles_micro_kernel.hpp"

#if LOCKSTEP_TILES

#include <immintrin.h>  // sfence

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lockstep/kernel/arch/panel_parts.hpp"
#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/runtime/scratch.hpp"

namespace lockstep::kernel::arch {

using precision::bfloat16;

/// Sizes and places of the operands. `rows`, `steps` and `columns` need not be multiples of 32; right is padded with zeros where they are
/// not.
struct PackedProduct {
    std::size_t     rows = 0, steps = 0, columns = 0;
    bfloat16 const* left         = nullptr;  // (rows, steps)
    std::size_t     left_stride  = 0;
    bfloat16 const* right        = nullptr;  // tiles of 32 steps x 32 columns
    std::size_t     right_step   = 0;        // elements from a tile to that of the next 32 steps
    std::size_t     right_column = 0;        // elements from a tile to that of the next 32 columns
    std::size_t     left_step    = 0;        // the same for left where it lies in tiles of 32 x 32, padded with zeros; 0: it lies in rows
    std::size_t     left_panel   = 0;        // elements from such a tile to that of the next 32 rows

    bool ragged() const noexcept { return left_step == 0 && (rows % block_size != 0 || steps % block_size != 0); }

    /// 32 rows of the left operand from a step on, 32 elements each.
    LeftPanel32 left_from(std::size_t panel, std::size_t step) const noexcept {
        if (left_step != 0)
            return {reinterpret_cast<std::byte const*>(left + panel * left_panel + step * left_step), tile_bytes, 2 * left_step};
        return {reinterpret_cast<std::byte const*>(left + panel * block_size * left_stride + step * block_size), 2 * left_stride,
                tile_bytes};
    }
};

namespace detail {

// In units of 32, chosen for a first level of 48 KB and a second one of 2 MB. A sum of up to `whole_sum` steps is one chunk, a longer one
// is cut into chunks of `product_chunk`: a shorter panel stays in the first level whole, which pays for reading and writing the sums of
// blocks.
inline constexpr std::size_t whole_sum = 28, product_chunk = 16;

/// Steps of a panel that are meant to stay in the first level.
inline constexpr std::size_t product_resident = 20;

/// Steps of all panels of the streaming operand, in the second level; panels of the other operand that a task takes.
inline constexpr std::size_t product_near_left = 400, product_near_right = 300, product_near_chunked = 200, product_far = 32,
                             product_far_chunked = 16;

/// What the vector unit is set to while a sink is in use: `Sink::Scope`, if there is one.
template <class Sink>
struct ScopeOf {
    struct type {};
};
template <class Sink>
    requires requires { typename Sink::Scope; }
struct ScopeOf<Sink> {
    using type = typename Sink::Scope;
};

/// What a task computes, where its sums wait, and the left rows of an edge with zeros behind them.
struct ProductTask {
    PanelRange rows, columns;
    float*     sums;    // of one block, or of all blocks of the task if there are several chunks
    bfloat16*  padded;  // 32 rows per panel if the product is ragged, else unused
};

/// Rows of a panel with zeros where the matrix ends: 32 rows of `padded_steps` elements.
inline void copy_padded_rows(PackedProduct const& product, std::size_t panel, std::size_t padded_steps, bfloat16* to) noexcept {
    std::size_t const first = panel * block_size, rows = std::min(block_size, product.rows - first);
    std::memset(static_cast<void*>(to), 0, block_size * padded_steps * sizeof(bfloat16));
    for (std::size_t r = 0; r < rows; ++r)
        std::memcpy(static_cast<void*>(to + r * padded_steps), product.left + (first + r) * product.left_stride,
                    product.steps * sizeof(bfloat16));
}

/// The lines of the next resident panel, spread over `blocks` blocks of `steps` steps. Where its rows or tiles all but touch, it is one
/// run.
template <Streams streams>
LinesAhead next_panel(PackedProduct const& product, std::size_t panel, std::size_t step, std::size_t steps, std::size_t blocks) noexcept {
    std::size_t const at_once = block_size / blocks + 1, rows = std::min(block_size, product.rows - panel * block_size);
    if constexpr (streams == Streams::left) {
        bool const        together = product.right_step == block_size * block_size;
        auto const* const data     = product.right + panel * product.right_column + step * product.right_step;
        return {reinterpret_cast<std::byte const*>(data), together ? block_size * steps : block_size, together ? 1 : steps,
                2 * product.right_step, at_once};
    } else if (product.left_step != 0) {
        LeftPanel32 const left = product.left_from(panel, step);
        return {left.data, block_size, steps, left.step, at_once};
    } else {
        bool const        together = product.left_stride <= (steps + 2) * block_size;
        auto const* const data     = product.left + panel * block_size * product.left_stride + step * block_size;
        std::size_t const whole    = std::min(steps, product.steps / block_size - std::min(step, product.steps / block_size));
        return {reinterpret_cast<std::byte const*>(data), together ? rows * product.left_stride / block_size : whole, together ? 1 : rows,
                2 * product.left_stride, at_once};
    }
}

/// The lines of the streaming operand in the panels `range` and some steps, spread over `blocks` blocks of `now` steps.
template <Streams streams>
LinesAhead next_chunk(PackedProduct const& product, PanelRange range, std::size_t step, std::size_t steps, std::size_t blocks,
                      std::size_t now) noexcept {
    std::size_t const panels = range.last - range.first, at_once = panels * steps * block_size / (blocks * now) + 1;
    if constexpr (streams == Streams::right) {
        auto const* const data =
            reinterpret_cast<std::byte const*>(product.right + range.first * product.right_column + step * product.right_step);
        bool const along = product.right_step < product.right_column;  // the tiles of a column touch, or those of a step
        return {data, block_size * (along ? steps : panels), along ? panels : steps,
                2 * (along ? product.right_column : product.right_step), at_once};
    } else if (product.left_step != 0) {
        return {product.left_from(range.first, step).data, block_size * panels, steps, 2 * product.left_step, at_once};
    } else {
        std::size_t const rows  = std::min(panels * block_size, product.rows - range.first * block_size);
        std::size_t const whole = std::min(steps, product.steps / block_size - std::min(step, product.steps / block_size));
        return {product.left_from(range.first, step).data, whole, rows, 2 * product.left_stride, at_once};
    }
}

template <Streams streams, class Sink>
LOCKSTEP_AVX512_LEAF void multiply_task(PackedProduct const& product, ProductTask const& task, PanelParts const& chunks,
                                        Sink const& sink) noexcept {
    using Scope = typename ScopeOf<Sink>::type;
    TileScope const              tiles;
    [[maybe_unused]] Scope const scope{};
    constexpr bool               left  = streams == Streams::left;
    PanelRange const             outer = left ? task.columns : task.rows, inner = left ? task.rows : task.columns;
    std::size_t const            padded_steps = chunks.panels * block_size;
    if (product.ragged())
        for (std::size_t panel = task.rows.first; panel < task.rows.last; ++panel)
            copy_padded_rows(product, panel, padded_steps, task.padded + (panel - task.rows.first) * block_size * padded_steps);

    Unfinished old;
    for (std::size_t chunk = 0; chunk < chunks.count; ++chunk) {
        auto const [begin, end] = chunks[chunk];
        std::size_t const steps = end - begin;
        bool const        last  = end == chunks.panels;
        LinesAhead        streaming;
        if (!last) {
            auto const [next_begin, next_end] = chunks[chunk + 1];
            streaming                         = next_chunk<streams>(product, inner, next_begin, next_end - next_begin,
                                            (outer.last - outer.first) * (inner.last - inner.first), steps);
        }
        for (std::size_t o = outer.first; o < outer.last; ++o) {
            LinesAhead next;
            if (o + 1 < outer.last) next = next_panel<streams>(product, o + 1, begin, steps, inner.last - inner.first);
            for (std::size_t i = inner.first; i < inner.last; ++i) {
                std::size_t const  row = left ? i : o, column = left ? o : i;
                LeftPanel32        a = product.left_from(row, begin);
                RightPanel32 const b{
                    reinterpret_cast<std::byte const*>(product.right + begin * product.right_step + column * product.right_column),
                    2 * product.right_step};
                if (product.ragged())
                    a = {reinterpret_cast<std::byte const*>(task.padded + (row - task.rows.first) * block_size * padded_steps +
                                                            begin * block_size),
                         2 * padded_steps, tile_bytes};
                float*     sums = task.sums;
                LinesAhead next_sums;
                if (chunks.count > 1) {
                    sums += ((o - outer.first) * (inner.last - inner.first) + i - inner.first) * block_size * block_size;
                    if (chunk > 0)
                        next_sums = {reinterpret_cast<std::byte const*>(sums + block_size * block_size), 64, 1, 0, 64 / steps + 1};
                }
                Unfinished const current{sums, row * block_size, column * block_size,
                                         last ? std::min(block_size, product.rows - row * block_size) : 0,
                                         std::min(block_size, product.columns - column * block_size)};
                LinesAhead       rows_read;
                if constexpr (requires { sink.ahead(row, column, row); }) {
                    rows_read         = sink.ahead(current.row, current.column, current.rows);
                    rows_read.at_once = block_size / steps + 1;
                }
                multiply_panels<streams>(a, b, steps, product_resident, chunk == 0 ? nullptr : sums, sums, old, sink, next, next_sums,
                                         rows_read, chunks.count > 1 ? &streaming : nullptr);
                old = current;
            }
        }
    }
    finish(old, sink);
    _mm_sfence();
}

/// A range of rows and columns, with scratch memory of this thread.
template <Streams streams, class Sink>
void multiply_part(PackedProduct const& product, PanelRange rows, PanelRange columns, PanelParts const& chunks, Sink const& sink) {
    if (rows.first == rows.last || columns.first == columns.last) return;
    ProductTask           task{rows, columns, nullptr, nullptr};
    runtime::ScratchFrame frame;
    std::size_t const     row_count = rows.last - rows.first, blocks = chunks.count == 1 ? 1 : row_count * (columns.last - columns.first);
    constexpr std::size_t page  = 4096;
    float* const          taken = frame.take<float>(blocks * block_size * block_size + page / sizeof(float)).data();
    task.sums                   = reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(taken) + page - 1) / page * page);
    if (product.ragged()) task.padded = frame.take<bfloat16>(row_count * block_size * chunks.panels * block_size).data();
    multiply_task<streams>(product, task, chunks, sink);
}

}  // namespace detail

/// Hands every row of 32 sums to the sink once: sink(sums, row, column, columns). Ranges of rows and columns run in parallel.
template <Streams streams, class Sink>
void multiply_packed(PackedProduct const& product, Sink const& sink) {
    using namespace detail;
    constexpr bool    left  = streams == Streams::left;
    std::size_t const steps = panels_of(product.steps), row_panels = panels_of(product.rows), column_panels = panels_of(product.columns);
    bool const        whole = steps <= whole_sum;
    PanelParts const  chunks(steps, whole ? whole_sum : product_chunk);
    std::size_t const near      = std::max<std::size_t>(1, (!whole ? product_near_chunked
                                                            : left ? product_near_left
                                                                   : product_near_right) /
                                                          chunks.size);
    std::size_t const near_side = left ? row_panels : column_panels, far_side = left ? column_panels : row_panels;
    std::size_t const far = cut_for_tasks(far_side, whole ? product_far : product_far_chunked, PanelParts(near_side, near).count,
                                          row_panels * column_panels * block_cost(steps));
    PanelParts const  rows(row_panels, left ? near : far), columns(column_panels, left ? far : near);
    runtime::parallel_for(rows.count * columns.count, rows.size * columns.size * block_cost(steps), [&](std::size_t part) {
        multiply_part<streams>(product, rows[part / columns.count], columns[part % columns.count], chunks, sink);
    });
}

}  // namespace lockstep::kernel::arch

#endif
