#pragma once
// Cross entropy over rows of logits, forward beside backward.
// Legend: N rows (tokens), V vocabulary, Vp vocabulary with padding. Columns from V on never enter, and their gradient is zero. Shapes that
// do not fit are errors; a label that is neither ignored nor in the vocabulary is an input error that names it and its position.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "lockstep/core/config.hpp"  // ignored_label
#include "lockstep/kernel/arch/simd_cross_entropy.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/kernel/shape.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel {

using tensor::View;

namespace detail {
inline void require_labels(char const* kernel, std::span<std::int32_t const> labels, std::size_t rows, std::size_t vocab,
                           std::size_t columns) {
    require_extent(kernel, "labels", labels.size(), rows);
    require(vocab <= columns, kernel, ": the vocabulary must be at most the ", columns, " columns of the logits, found ", vocab);
    for (std::size_t n = 0; n < rows; ++n)
        if (labels[n] != ignored_label && (labels[n] < 0 || static_cast<std::size_t>(labels[n]) >= vocab))
            input_error(kernel, ": label ", labels[n], " at position ", n, " is outside the vocabulary of ", vocab);
}
}  // namespace detail

/// loss = -log(softmax(logits)[label]) of each row, and the logarithm of the sum of exponentials. Both 0 where the label is ignored.
template <class L, class A>
void cross_entropy_forward(View<L, 2>                    logits,  // (N,Vp)
                           std::size_t                   vocab,   // V
                           std::span<std::int32_t const> labels,  // (N)
                           View<A, 1>                    loss,    // (N)
                           View<A, 1>                    lse) {                      // (N)
    static_assert(std::same_as<A, precision::accumulator<std::remove_const_t<L>>>,
                  "lockstep: losses must be in the accumulator of the logits; see lockstep/kernel/cross_entropy.hpp");
    std::size_t const rows = logits.extent(0);
    detail::require_labels("cross_entropy_forward", labels, rows, vocab, logits.extent(1));
    require_shape("cross_entropy_forward", "loss", loss, rows);
    require_shape("cross_entropy_forward", "lse", lse, rows);
    with_arch([&](auto tag) {
        runtime::parallel_for(rows, 3 * vocab, [&](std::size_t n) {
            arch::RowLoss<A> row{};
            if (labels[n] != ignored_label)
                row = arch::cross_entropy_row(tag, logits.row(n).data(), vocab, static_cast<std::size_t>(labels[n]));
            loss(n) = row.loss;
            lse(n)  = row.lse;
        });
    });
}

/// dlogits = scale * (softmax - onehot), 0 for ignored rows and padded columns. May be the memory of the logits if the types agree.
template <class L, class A, precision::compute_element D>
void cross_entropy_backward(View<L, 2>                                     logits,                       // (N,Vp)
                            std::size_t                                    vocab,                        // V
                            std::span<std::int32_t const>                  labels,                       // (N)
                            View<A, 1>                                     lse,                          // (N)
                            precision::accumulator<std::remove_const_t<L>> scale, View<D, 2> dlogits) {  // (N,Vp)
    std::size_t const rows = logits.extent(0), columns = logits.extent(1);
    detail::require_labels("cross_entropy_backward", labels, rows, vocab, columns);
    require_shape("cross_entropy_backward", "lse", lse, rows);
    require_shape("cross_entropy_backward", "dlogits", dlogits, rows, columns);
    with_arch([&](auto tag) {
        runtime::parallel_for(rows, 3 * columns, [&](std::size_t n) {
            std::span<D> const row  = dlogits.row(n);
            bool const         used = labels[n] != ignored_label;
            if (used)
                arch::cross_entropy_backward_row(tag, logits.row(n).data(), vocab, static_cast<std::size_t>(labels[n]), lse(n), scale,
                                                 row.data());
            std::ranges::fill(row.subspan(used ? vocab : 0), D{});
        });
    });
}

}  // namespace lockstep::kernel
