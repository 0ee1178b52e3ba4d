#pragma once
// Gradients of the head from the exponentials of a chunk. The gradient of a logit is an exponential times a factor of its row, so the
// factors are applied to what has fewer columns: dW = E^T (factors * h), dh = factors * (E W).

#include "lockstep/kernel/arch/tiles_head_logits.hpp"
#include "lockstep/kernel/arch/tiles_pack.hpp"
#include "lockstep/kernel/arch/tiles_weight_grad.hpp"

#if LOCKSTEP_TILES

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

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

/// 32 tokens: rows of h times their factors, transposed, as blocks of the left operand, `panel` elements apart. A factor of 0 gives zeros.
LOCKSTEP_AVX512_LEAF inline void pack_scaled(View<bfloat16 const, 2> h, std::span<float const> factors, std::size_t token, bfloat16* to,
                                             std::size_t panel) noexcept {
    alignas(64) bfloat16 scaled[block_elements];
    std::size_t const    rows = std::min(block_size, h.extent(0) - token);
    std::memset(static_cast<void*>(scaled), 0, block_bytes);
    for (std::size_t column = 0; column < h.extent(1); column += block_size, to += panel) {
        std::size_t const columns = std::min(block_size, h.extent(1) - column);
        for (std::size_t r = 0; r < rows; ++r) {
            float const factor = factors[token + r];
            if (factor == 0) continue;
            Lanes32 const x = load_lanes(h.data() + (token + r) * h.stride(0) + column, columns);
            __m512 const  f = _mm512_set1_ps(factor);
            store_lanes(scaled + r * block_size, Lanes32{_mm512_mul_ps(x.low, f), _mm512_mul_ps(x.high, f)}, block_size);
        }
        pack_left_transposed(scaled, block_size, to);
    }
}

/// Adds a block of sums to the gradient of the weight, transposed: rows of sums are columns of dw. A call does a sixteenth of the block:
/// four rows of dw, 16 columns.
struct TransposedAddSink {
    state::Matrix<float> dw;
    std::size_t          tiles_across;

    static constexpr std::size_t calls = 16;

    LOCKSTEP_AVX512_INLINE void operator()(float const* from, std::size_t row, std::size_t column, std::size_t columns) const noexcept {
        std::size_t const call = row % block_size, half = call % 2, four = call / 2 * 4;
        float const*      sums  = from - call * block_size;
        std::size_t const first = row - call;  // column of dw
        float* const      tile  = dw.data + (column / block_size * tiles_across + first / block_size) * block_elements;
        Rows4 const       rows =
            transpose_chunk(reinterpret_cast<std::byte const*>(sums + half * 16 * block_size + four / 16 * 16), sum_bytes, four % 16 / 4);
        std::size_t const wide = dw.columns() - first;  // columns of dw from this tile on
        if (columns == block_size && wide >= block_size) {
            for (std::size_t i = 0; i < 4; ++i) {
                float* const to = tile + (four + i) * block_size + half * 16;
                _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), _mm512_castsi512_ps(rows.row[i])));
            }
            return;
        }
        __mmask16 const mask = static_cast<__mmask16>(first_lanes(wide) >> (16 * half));
        for (std::size_t i = 0; i < 4 && four + i < columns; ++i) {
            float* const to = tile + (four + i) * block_size + half * 16;
            _mm512_mask_storeu_ps(to, mask, _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), _mm512_castsi512_ps(rows.row[i])));
        }
    }
};

/// In units of 32: tokens and channels of a task, so that what it comes back to stays in the second-level cache; rows of dw that a task
/// takes.
inline constexpr std::size_t head_tokens = 16, head_channels = 12, head_far = 16;

/// Panels of columns of E that all tasks take before the next ones, so that they share them and the weights in the third level. Each time a
/// task starts with weights that nothing has asked for ahead, and all wait for the last one: so they are many. Vectors ask for nothing and
/// do better with as few as stay in the second level.
inline std::size_t head_columns() noexcept { return without_tile_unit() ? 32 : 128; }

/// dw += E^T h for some panels of 32 rows of dw: computed as h^T E. Each pass over tokens reads and writes all of them, so there are as few
/// as leave a panel of E in the first-level cache. `packed` holds one with pairs of rows interleaved, `sums` a block.
LOCKSTEP_AVX512_LEAF inline void add_head_products(ExponentialBlocks const& e, TokenPanels h, state::Matrix<float> dw, PanelRange range,
                                                   bfloat16* packed, float* sums) noexcept {
    TileScope const         tiles;
    std::size_t const       across = panels_of(dw.columns());
    TransposedAddSink const sink{dw, across};
    std::size_t const       most = PanelParts(h.steps, product_resident).size;
    Unfinished              old;
    for (std::size_t token = 0; token < h.steps; token += most) {
        std::size_t const steps = std::min(most, h.steps - token);
        for (std::size_t v = range.first; v < range.last; ++v) {
            bfloat16 const* const panel = e.data + v * e.column_panel + token * block_elements;
            for (std::size_t step = 0; step < steps; ++step)
                pack_right(panel + step * block_elements, block_size, packed + step * block_elements);
            LinesAhead next;
            if (v + 1 < range.last)
                next = {reinterpret_cast<std::byte const*>(panel + e.column_panel), 32, steps, block_bytes, 32 / across + 1};
            for (std::size_t c = 0; c < across; ++c) {
                LinesAhead const next_sums{reinterpret_cast<std::byte const*>(dw.data + (v * across + c + 1) * block_elements), 64, 1, 0,
                                           64 / steps + 1};
                multiply_panels<Streams::left>(LeftPanel32{h.at(c, token), tile_bytes, block_bytes},
                                               RightPanel32{reinterpret_cast<std::byte const*>(packed), block_bytes}, steps,
                                               product_resident, nullptr, sums, old, sink, next, next_sums, {});
                old = {sums, c * block_size, v * block_size, TransposedAddSink::calls, std::min(block_size, dw.rows() - v * block_size)};
            }
        }
    }
    finish(old, sink);
}

/// Leaves sums where they are.
struct KeepSums {
    LOCKSTEP_AVX512_INLINE void operator()(float const*, std::size_t, std::size_t, std::size_t) const noexcept {}
};

/// sums += E W over some panels of columns of E, or = for the first ones. Blocks of sums lie one after another, row by row.
LOCKSTEP_AVX512_LEAF inline void add_input_products(ExponentialBlocks const& e, InputGradWeights w, PanelRange rows, PanelRange channels,
                                                    PanelRange range, float* sums) noexcept {
    TileScope const tiles;
    Unfinished      old;
    PackedProduct   product{0, 0, 0, e.data, 0, w.data, w.tiles_across() * block_elements, block_elements};
    product.left_step        = e.column_panel;
    product.left_panel       = block_elements;
    std::size_t const across = channels.last - channels.first, blocks = (rows.last - rows.first) * across;
    for (std::size_t v = range.first; v < range.last; v += head_tokens) {
        std::size_t const steps = std::min(head_tokens, range.last - v), next_v = v + steps;
        LinesAhead        streaming;
        if (next_v < range.last)
            streaming = next_chunk<Streams::right>(product, channels, next_v, std::min(head_tokens, range.last - next_v), blocks, steps);
        float* at = sums;
        for (std::size_t row = rows.first; row < rows.last; ++row) {
            LinesAhead next;
            if (row + 1 < rows.last)
                next = next_panel<Streams::right>(product, row + 1, v, steps, across);
            else if (next_v < range.last)
                next = next_panel<Streams::right>(product, rows.first, next_v, std::min(head_tokens, range.last - next_v), across);
            for (std::size_t c = channels.first; c < channels.last; ++c, at += block_elements) {
                LinesAhead next_sums;
                if (v != 0) next_sums = {reinterpret_cast<std::byte const*>(at + block_elements), 64, 1, 0, 64 / steps + 1};
                RightPanel32 const b{reinterpret_cast<std::byte const*>(product.right + v * product.right_step + c * product.right_column),
                                     2 * product.right_step};
                multiply_panels<Streams::right>(product.left_from(row, v), b, steps, product_resident, v == 0 ? nullptr : at, at, old,
                                                KeepSums{}, next, next_sums, {}, &streaming);
                old = {at, 0, 0, 0, 0};
            }
        }
    }
    finish(old, KeepSums{});
}

/// dh = factors * sums for a panel of 32 rows. A factor of 0 gives zeros.
LOCKSTEP_AVX512_LEAF inline void scale_sums(float const* sums, std::span<float const> factors, std::size_t row, PanelRange channels,
                                            SinkRows<bfloat16> dh, std::size_t columns) noexcept {
    for (std::size_t c = channels.first; c < channels.last; ++c, sums += block_elements)
        for (std::size_t r = 0; r < std::min(block_size, factors.size() - row); ++r) {
            float const     factor = factors[row + r];
            __mmask16 const used   = factor == 0 ? 0 : 0xFFFF;
            __m512 const    f      = _mm512_set1_ps(factor);
            Lanes32 const   x      = load_lanes(sums + r * block_size, block_size);
            dh.store(row + r, c * block_size, Lanes32{_mm512_maskz_mul_ps(used, x.low, f), _mm512_maskz_mul_ps(used, x.high, f)},
                     std::min(block_size, columns - c * block_size));
        }
}

}  // namespace detail

/// dw += E^T (factors * h).
inline void head_weight_grad(ExponentialBlocks const& e,        // (R,V)
                             View<bfloat16 const, 2>  h,        // (R,C)
                             std::span<float const>   factors,  // (R)
                             state::Matrix<float>     dw) {         // [V,C]
    using namespace detail;
    std::size_t const     steps = panels_of(h.extent(0)), across = panels_of(dw.columns()), panels = panels_of(dw.rows());
    runtime::ScratchFrame frame;
    bfloat16* const       packed_h = frame.take<bfloat16>(across * steps * block_elements).data();
    runtime::parallel_for(steps, across * 512, [&](std::size_t step) {
        pack_scaled(h, factors, step * block_size, packed_h + step * block_elements, steps * block_elements);
    });
    PanelParts const parts(panels, cut_for_tasks(panels, head_far, 1, panels * across * block_cost(steps)));
    runtime::parallel_for(parts.count, parts.size * across * block_cost(steps), [&](std::size_t part) {
        runtime::ScratchFrame own;
        float* const          sums   = own.take<float>(block_elements).data();
        bfloat16* const       packed = own.take<bfloat16>(product_resident * block_elements).data();
        add_head_products(e, {packed_h, steps}, dw, parts[part], packed, sums);
    });
}

/// dh = factors * (E W).
inline void head_input_grad(ExponentialBlocks const& e,        // (R,V)
                            InputGradWeights         w,        // [V,C]
                            std::span<float const>   factors,  // (R)
                            View<bfloat16, 2>        dh) {            // (R,C)
    using namespace detail;
    std::size_t const row_panels = panels_of(dh.extent(0)), across = panels_of(w.columns), panels = panels_of(w.rows);
    PanelParts const  channels(across, head_channels);
    // As if there were two chains to a range: tasks of fewer rows would read the weights from the third level more often.
    std::size_t const     range_cost = row_panels * across * block_cost(std::min(panels, 2 * head_tokens));
    std::size_t const     far        = cut_for_tasks(row_panels, head_tokens, channels.count, range_cost);
    PanelParts const      rows(row_panels, far);
    std::size_t const     task_elements = rows.size * channels.size * block_elements;
    runtime::ScratchFrame frame;
    float* const          sums          = frame.take<float>(rows.count * channels.count * task_elements).data();
    auto const            for_each_task = [&](std::size_t cost, auto const& body) {
        runtime::parallel_for(rows.count * channels.count, task_elements * cost, [&](std::size_t task) {
            PanelRange const r = rows[task / channels.count], c = channels[task % channels.count];
            if (r.first != r.last && c.first != c.last) body(r, c, sums + task * task_elements);
        });
    };
    for (std::size_t first = 0; first < panels; first += head_columns()) {
        PanelRange const range{first, std::min(panels, first + head_columns())};
        for_each_task(block_cost(range.last - first) / block_elements + 1,
                      [&](PanelRange r, PanelRange c, float* at) { add_input_products(e, w, r, c, range, at); });
    }
    for_each_task(1, [&](PanelRange r, PanelRange c, float const* at) {
        for (std::size_t row = r.first; row < r.last; ++row, at += (c.last - c.first) * block_elements)
            scale_sums(at, factors, row * block_size, c, {dh, Stores::cached}, w.columns);
    });
}

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
