#pragma once
// Head and cross entropy on tiles, for a chunk of tokens: logits never reach memory, what the gradients need of them does in bfloat16.
// Legend: R tokens of the chunk, C channels, V vocabulary.

#include "lockstep/kernel/arch/tiles_head_gradient.hpp"

#if LOCKSTEP_TILES

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "lockstep/kernel/denormals.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {

namespace detail {

/// All exponentials of a row relative to its largest anchor.
struct RowTotal {
    double anchor;
    double sum;
};

/// Adds the blocks of a row in order, and makes its exponentials relative to one anchor.
LOCKSTEP_AVX512_LEAF inline RowTotal combine_row(RowExponentials const& d, std::size_t row, std::size_t columns) noexcept {
    DenormalsAreZero const scope;
    std::size_t const      blocks = RowExponentials::blocks(columns);
    float                  anchor = d.block_anchors[d.place(row, 0)];
    for (std::size_t b = 1; b < blocks; ++b) anchor = std::max(anchor, d.block_anchors[d.place(row, b)]);
    double sum = 0;
    for (std::size_t b = 0; b < blocks; ++b) {
        float const power = d.block_anchors[d.place(row, b)] - anchor;
        double      part  = static_cast<double>(d.block_sums[d.place(row, b)]);
        if (power != 0) {
            std::size_t const begin = b * RowExponentials::block_columns;
            scale_exponentials(d.exponentials, row, begin, std::min(begin + RowExponentials::block_columns, columns), power);
            part *= std::exp(static_cast<double>(power));
        }
        sum += part;
    }
    return {static_cast<double>(anchor), sum};
}

/// The exponentials of a row whose label is ignored are 0 already, unless its logits are no numbers.
inline void clear_row(RowExponentials const& d, std::size_t row, std::size_t columns) noexcept {
    for (std::size_t column = 0; column < columns; column += block_size)
        if (d.block_sums[d.place(row, column / RowExponentials::block_columns)] != 0)
            std::memset(static_cast<void*>(d.exponentials.row(row, column)), 0, block_size * sizeof(bfloat16));
}

/// Memory for what the rows of a chunk leave behind.
inline RowExponentials take_rows(runtime::ScratchFrame& frame, std::span<std::int32_t const> labels, std::size_t columns,
                                 ExponentialBlocks exponentials) {
    std::size_t const rows = labels.size(), blocks = RowExponentials::blocks(columns);
    return {labels,
            frame.take<float>(rows).data(),
            frame.take<float>(rows).data(),
            frame.take<float>(blocks * rows).data(),
            frame.take<float>(blocks * rows).data(),
            exponentials};
}

/// Loss and logarithm of the sum of exponentials of a row with a valid label.
inline void row_loss(RowTotal total, float label_logit, float& loss, float& lse) noexcept {
    double const log_sum = std::log(total.sum);
    loss                 = static_cast<float>(total.anchor - static_cast<double>(label_logit) + log_sum);
    lse                  = static_cast<float>(total.anchor + log_sum);
}

}  // namespace detail

/// loss = -log(softmax(h W^T)[label]) of each row, and the logarithm of the sum of exponentials. Both 0 where the label is ignored.
inline void head_loss(tiles, View<bfloat16 const, 2> h,           // (R,C)
                      ForwardWeights                w,            // [V,C]
                      std::span<std::int32_t const> labels,       // (R)
                      View<float, 1> loss, View<float, 1> lse) {  // (R)
    using namespace detail;
    runtime::ScratchFrame frame;
    RowExponentials const rows = take_rows(frame, labels, w.rows, {});
    exponentiate_logits(h, w, rows);
    runtime::parallel_for(labels.size(), 64 * RowExponentials::blocks(w.rows), [&](std::size_t row) {
        loss(row) = lse(row) = 0;
        if (labels[row] >= 0) row_loss(combine_row(rows, row, w.rows), rows.label_logits[row], loss(row), lse(row));
    });
}

/// The same with the gradients of `scale` times the sum of the losses: dw += dlogits^T h, dh = dlogits W. `memory` holds
/// ExponentialBlocks::elements(R, V).
inline void head_loss_backward(tiles, View<bfloat16 const, 2> h,                   // (R,C)
                               ForwardWeights w, InputGradWeights w_backward,      // [V,C]
                               std::span<std::int32_t const> labels, float scale,  // (R)
                               View<float, 1> loss, View<float, 1> lse,            // (R)
                               state::Matrix<float> dw,                            // [V,C]
                               View<bfloat16, 2>    dh,                            // (R,C)
                               bfloat16*            memory) {
    using namespace detail;
    runtime::ScratchFrame   frame;
    ExponentialBlocks const e(memory, labels.size(), w.rows);
    RowExponentials const   rows    = take_rows(frame, labels, w.rows, e);
    std::span<float> const  factors = frame.take<float>(labels.size());
    e.clear_padding(labels.size());
    exponentiate_logits(h, w, rows);
    runtime::parallel_for(labels.size(), 64 * RowExponentials::blocks(w.rows), [&](std::size_t row) {
        loss(row) = lse(row) = factors[row] = 0;
        if (labels[row] < 0) return clear_row(rows, row, w.rows);
        RowTotal const total = combine_row(rows, row, w.rows);
        row_loss(total, rows.label_logits[row], loss(row), lse(row));
        factors[row] = static_cast<float>(static_cast<double>(scale) / total.sum);
        // p - 1 in place of p, without cancellation.
        e(row, static_cast<std::size_t>(labels[row])) =
            bfloat16(static_cast<float>(std::expm1(-static_cast<double>(loss(row))) * total.sum));
    });
    head_weight_grad(e, h, factors, dw);
    head_input_grad(e, w_backward, factors, dh);
}

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
