#pragma once
// Logits on tiles that become exponentials before they reach memory: of a row only sums of exponentials and the logit of its label remain,
// and where a backward pass follows, the exponentials rounded to bfloat16.
//
// The exponential of a logit l is exp(l - a), where the anchor a of a row is one of its logits, not always the largest one: the range of
// bfloat16 is that of float. A row has the anchor that its first 32 logits give. Where a later logit exceeds it by far, a block of 512
// columns gets its own, so that nothing overflows; combining a row undoes that.

#include "lockstep/kernel/arch/tiles_blocking.hpp"
#include "lockstep/kernel/arch/tiles_exponential.hpp"
#include "lockstep/kernel/arch/tiles_gemm.hpp"
#include "lockstep/kernel/arch/tiles_sinks.hpp"

#if LOCKSTEP_TILES

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "lockstep/kernel/denormals.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {

/// Exponentials (R,V) in blocks of 32 x 32 in row order: those of a panel of columns one after another, padded with zeros. Panels of
/// columns lie an odd number of blocks apart, so that the blocks of a panel of rows do not share sets of the first-level cache.
struct ExponentialBlocks {
    bfloat16*   data         = nullptr;  // null: none are kept
    std::size_t row_panels   = 0;
    std::size_t column_panel = 0;  // elements from a panel of columns to the next
    std::size_t columns      = 0;

    static constexpr std::size_t panel_elements(std::size_t rows) noexcept { return (panels_of(rows) | 1) * block_size * block_size; }
    static constexpr std::size_t elements(std::size_t rows, std::size_t columns) noexcept {
        return panels_of(columns) * panel_elements(rows);
    }
    ExponentialBlocks() = default;
    ExponentialBlocks(bfloat16* at, std::size_t rows, std::size_t vocab) noexcept
        : data(at), row_panels(panels_of(rows)), column_panel(panel_elements(rows)), columns(vocab) {}

    /// True where the caches will not hold them until they are read.
    bool large() const noexcept { return panels_of(columns) * column_panel * sizeof(bfloat16) >= std::size_t{16} << 20; }

    /// 32 columns of a row, from a multiple of 32 on.
    bfloat16* row(std::size_t r, std::size_t column) const noexcept {
        return data + column / block_size * column_panel + r * block_size;  // blocks of a panel of columns touch
    }
    bfloat16& operator()(std::size_t r, std::size_t column) const noexcept { return row(r, column)[column % block_size]; }

    /// Zeros in the rows from `rows` on of the last panel of rows.
    void clear_padding(std::size_t rows) const noexcept {
        std::size_t const padding = row_panels * block_size - rows;
        for (std::size_t column = 0; padding != 0 && column < columns; column += block_size)
            std::memset(static_cast<void*>(row(rows, column)), 0, padding * block_size * sizeof(bfloat16));
    }
};

/// What the rows of a chunk leave behind. Legend: R rows, B blocks of 512 columns.
struct RowExponentials {
    static constexpr std::size_t block_columns = 512;

    std::span<std::int32_t const> labels;         // (R)
    float*                        anchors;        // (R), +infinity where the label is ignored: all exponentials are 0
    float*                        label_logits;   // (R)
    float*                        block_anchors;  // (B,R)
    float*                        block_sums;     // (B,R)
    ExponentialBlocks             exponentials;

    std::size_t place(std::size_t row, std::size_t block) const noexcept { return block * labels.size() + row; }

    static constexpr std::size_t blocks(std::size_t columns) noexcept { return (columns + block_columns - 1) / block_columns; }
};

namespace detail {

/// Exponentials above e to this power are not kept: their sums, and gradients that are divided by them, stay far from overflow.
inline constexpr float largest_power = 40.0f;

/// Minus infinity where the matrix has ended.
LOCKSTEP_AVX512_INLINE Lanes32 masked(Lanes32 x, std::size_t columns) noexcept {
    if (columns >= block_size) return x;
    __m512 const lowest = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
    return {_mm512_mask_mov_ps(lowest, static_cast<__mmask16>(first_lanes(columns)), x.low),
            _mm512_mask_mov_ps(lowest, static_cast<__mmask16>(first_lanes(columns) >> 16), x.high)};
}

LOCKSTEP_AVX512_INLINE Lanes32 powers(Lanes32 x, float anchor) noexcept {
    __m512 const a = _mm512_set1_ps(anchor);
    return {_mm512_sub_ps(x.low, a), _mm512_sub_ps(x.high, a)};
}

/// e to these powers.
LOCKSTEP_AVX512_INLINE __m512 exponential(__m512 power) noexcept { return exp2<5>(_mm512_mul_ps(power, _mm512_set1_ps(log2_e))); }

/// Multiplies exponentials of a row, in columns from a multiple of 32 on, by e^power.
LOCKSTEP_AVX512_LEAF inline void scale_exponentials(ExponentialBlocks const& e, std::size_t row, std::size_t begin, std::size_t end,
                                                    float power) noexcept {
    if (e.data == nullptr) return;
    __m512 const factor = exponential(_mm512_set1_ps(power));
    for (; begin < end; begin += block_size) {
        bfloat16* const at = e.row(row, begin);
        Lanes32 const   x  = load_lanes(at, block_size);
        store_lanes(at, Lanes32{_mm512_mul_ps(x.low, factor), _mm512_mul_ps(x.high, factor)}, block_size);
    }
}

/// The largest of 32 logits as an anchor; NaN is left to the sums.
LOCKSTEP_AVX512_INLINE float anchor_of(Lanes32 x) noexcept {
    float const most = _mm512_reduce_max_ps(_mm512_max_ps(x.low, x.high));
    return std::max(most, std::numeric_limits<float>::lowest());
}

/// The anchor of each row, from the first 32 columns.
struct AnchorSink {
    RowExponentials rows;

    LOCKSTEP_AVX512_INLINE void operator()(float const* from, std::size_t row, std::size_t, std::size_t columns) const noexcept {
        rows.anchors[row] =
            rows.labels[row] < 0 ? std::numeric_limits<float>::infinity() : anchor_of(masked(load_lanes(from, 32), columns));
    }
};

/// Four sums of eight exponentials each.
LOCKSTEP_AVX512_INLINE __m128 quarter_sums(Lanes32 e) noexcept {
    __m512 const both  = _mm512_add_ps(e.low, e.high);
    __m256 const eight = _mm256_add_ps(_mm512_castps512_ps256(both), _mm512_extractf32x8_ps(both, 1));
    return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}

/// Of a task, from `first_row` on: anchors and sums of the present block of columns, each sum in four parts.
struct ExponentialSink {
    RowExponentials rows;
    std::size_t     columns_in_all;
    bool            past_caches;  // how exponentials are stored
    std::size_t     first_row;
    float*          quarters;      // (rows of the task, 4)
    float*          task_anchors;  // (rows of the task)

    using Scope = DenormalsAreZero;

    LOCKSTEP_AVX512_INLINE void operator()(float const* from, std::size_t row, std::size_t column, std::size_t columns) const noexcept {
        Lanes32 const     x      = masked(load_lanes(from, block_size), columns);
        float* const      sums   = quarters + (row - first_row) * 4;
        float&            anchor = task_anchors[row - first_row];
        std::size_t const within = column % RowExponentials::block_columns;
        __m128            sum    = _mm_setzero_ps();
        if (within == 0)
            anchor = rows.anchors[row];
        else
            sum = _mm_load_ps(sums);
        Lanes32 power = powers(x, anchor);
        if (_mm512_cmp_ps_mask(_mm512_max_ps(power.low, power.high), _mm512_set1_ps(largest_power), _CMP_GT_OQ) != 0) [[unlikely]] {
            float const moved = anchor_of(x);
            sum               = _mm_mul_ps(sum, _mm512_castps512_ps128(exponential(_mm512_set1_ps(anchor - moved))));
            scale_exponentials(rows.exponentials, row, column - within, column, anchor - moved);
            anchor = moved;
            power  = powers(x, anchor);
        }
        Lanes32 const e{exponential(power.low), exponential(power.high)};
        sum = _mm_add_ps(sum, quarter_sums(e));
        _mm_store_ps(sums, sum);
        if (rows.exponentials.data != nullptr) store_lanes(rows.exponentials.row(row, column), e, block_size, past_caches);
        std::size_t const label = static_cast<std::size_t>(rows.labels[row]) - column;  // wraps around
        if (label < columns) rows.label_logits[row] = from[label];
        if (within + block_size == RowExponentials::block_columns || column + block_size >= columns_in_all) {
            std::size_t const place   = rows.place(row, column / RowExponentials::block_columns);
            rows.block_sums[place]    = (sum[0] + sum[1]) + (sum[2] + sum[3]);
            rows.block_anchors[place] = anchor;
        }
    }
};

}  // namespace detail

/// Fills `rows` from the logits x W^T, of which the first `w.rows` columns count.
inline void exponentiate_logits(View<bfloat16 const, 2> x, ForwardWeights w, RowExponentials const& rows) {  // (R,C)
    using namespace detail;
    std::size_t const   row_panels = panels_of(x.extent(0)), steps = panels_of(x.extent(1)), blocks = RowExponentials::blocks(w.rows);
    PackedProduct const product{x.extent(0), x.extent(1), w.rows,        x.data(),
                                x.stride(0), w.data,      tile_elements, w.tiles_across() * tile_elements};
    PackedProduct       first = product;
    first.columns             = std::min(block_size, w.rows);
    multiply_packed<Streams::left>(first, AnchorSink{rows});

    // Parts with the same columns follow each other: their weights come from memory once.
    bool const            whole = steps <= whole_sum;
    PanelParts const      chunks(steps, whole ? whole_sum : product_chunk);
    PanelParts const      row_parts(row_panels, std::max<std::size_t>(1, (whole ? product_near_left : product_near_chunked) / chunks.size));
    constexpr std::size_t block_panels = RowExponentials::block_columns / block_size;
    std::size_t const     far = cut_for_tasks(blocks, whole ? 6 : 1, row_parts.count, row_panels * panels_of(w.rows) * block_cost(steps));
    PanelParts const      parts(blocks, far);
    runtime::parallel_for(parts.count * row_parts.count, parts.size * block_panels * row_parts.size * block_cost(steps),
                          [&](std::size_t part) {
                              auto const [first_block, last_block] = parts[part / row_parts.count];
                              PanelRange const      row_range      = row_parts[part % row_parts.count];
                              PanelRange const      columns{std::min(first_block * block_panels, panels_of(w.rows)),
                                                       std::min(last_block * block_panels, panels_of(w.rows))};
                              std::size_t const     count = row_parts.size * block_size;
                              runtime::ScratchFrame frame;
                              ExponentialSink const sink{rows,
                                                         w.rows,
                                                         rows.exponentials.large(),
                                                         row_range.first * block_size,
                                                         frame.take<float>(4 * count).data(),
                                                         frame.take<float>(count).data()};
                              multiply_part<Streams::left>(product, row_range, columns, chunks, sink);
                          });
}

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
