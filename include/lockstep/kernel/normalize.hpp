#pragma once
// LayerNorm (Ba, Kiros, Hinton 2016, arXiv:1607.06450) and RMSNorm (Zhang, Sennrich 2019, arXiv:1910.07467), forward beside backward.
// Legend: N rows, C channels. A is the accumulator of the input's type. Inputs may be views of const elements.

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include "lockstep/kernel/arch/simd_normalize.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/kernel/shape.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/runtime/scratch.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel {

using tensor::View;

namespace detail {

/// Rows whose contributions to column sums are added one after the other; the sums of such chunks are then added in order.
inline constexpr std::size_t chunk_rows = 32;

/// Calls body(chunk's sums, first row, last row) for each chunk of rows, then adds the sums of all chunks in order to `totals`, which lie
/// one after the other in a chunk's sums. The order depends on the number of rows only.
template <class A, class G, std::size_t Totals, class Body>
void sum_columns(std::size_t rows, std::size_t columns, std::size_t cost, std::span<G* const, Totals> totals, Body const& body) {
    std::size_t const     chunks = (rows + chunk_rows - 1) / chunk_rows;
    std::size_t const     stride = Totals * columns;
    runtime::ScratchFrame frame;
    std::span<A> const    sums = frame.take<A>(chunks * stride);
    runtime::parallel_for(chunks, chunk_rows * columns * cost, [&](std::size_t chunk) {
        std::span<A> const own = sums.subspan(chunk * stride, stride);
        std::ranges::fill(own, A(0));
        body(own.data(), chunk * chunk_rows, std::min(rows, (chunk + 1) * chunk_rows));
    });
    constexpr std::size_t wide = 64;
    for (std::size_t t = 0; t < Totals; ++t)
        runtime::parallel_for((columns + wide - 1) / wide, chunks * wide, [&](std::size_t block) {
            std::size_t const begin = block * wide, end = std::min(columns, begin + wide);
            A* const          first = sums.data() + t * columns;
            for (std::size_t chunk = 1; chunk < chunks; ++chunk)
                for (std::size_t c = begin; c < end; ++c) first[c] += first[chunk * stride + c];
            if (chunks > 0)
                for (std::size_t c = begin; c < end; ++c) totals[t][c] += static_cast<G>(first[c]);
        });
}

}  // namespace detail

/// y = (x - mean) / sqrt(variance + eps) * gamma + beta, row by row, rounded once.
template <class X, class W, class B, precision::compute_element Y, class A>
void layernorm_forward(View<X, 2> x,              // (N,C)
                       View<W, 1> gamma,          // (C)
                       View<B, 1> beta,           // (C)
                       double eps, View<Y, 2> y,  // (N,C)
                       View<A, 1> mean,           // (N)
                       View<A, 1> rstd) {         // (N)
    static_assert(std::same_as<A, precision::accumulator<std::remove_const_t<X>>>,
                  "lockstep: statistics must be in the accumulator of x; see lockstep/kernel/normalize.hpp");
    static_assert(std::same_as<std::remove_const_t<W>, std::remove_const_t<B>>,
                  "lockstep: gamma and beta must have the same type; see lockstep/kernel/normalize.hpp");
    std::size_t const rows = x.extent(0), columns = x.extent(1);
    require_shape("layernorm_forward", "gamma", gamma, columns);
    require_shape("layernorm_forward", "beta", beta, columns);
    require_shape("layernorm_forward", "y", y, rows, columns);
    require_shape("layernorm_forward", "mean", mean, rows);
    require_shape("layernorm_forward", "rstd", rstd, rows);
    if (columns == 0) return;
    with_arch([&](auto tag) {
        runtime::parallel_for(rows, 2 * columns, [&](std::size_t n) {
            auto const row = arch::layernorm_row(tag, x.row(n).data(), gamma.data(), beta.data(), eps, y.row(n).data(), columns);
            mean(n)        = row.mean;
            rstd(n)        = row.rstd;
        });
    });
}

/// Overwrites dx, which may be the memory of dy or x; adds to dgamma and dbeta, in an order that depends on N only.
template <class DY, class X, class W, class A, precision::compute_element DX, precision::master_element G>
void layernorm_backward(View<DY, 2> dy,      // (N,C)
                        View<X, 2>  x,       // (N,C)
                        View<W, 1>  gamma,   // (C)
                        View<A, 1>  mean,    // (N)
                        View<A, 1>  rstd,    // (N)
                        View<DX, 2> dx,      // (N,C)
                        View<G, 1>  dgamma,  // (C)
                        View<G, 1>  dbeta) {  // (C)
    std::size_t const rows = x.extent(0), columns = x.extent(1);
    require_shape("layernorm_backward", "dy", dy, rows, columns);
    require_shape("layernorm_backward", "gamma", gamma, columns);
    require_shape("layernorm_backward", "mean", mean, rows);
    require_shape("layernorm_backward", "rstd", rstd, rows);
    require_shape("layernorm_backward", "dx", dx, rows, columns);
    require_shape("layernorm_backward", "dgamma", dgamma, columns);
    require_shape("layernorm_backward", "dbeta", dbeta, columns);
    if (columns == 0) return;
    using Sum = precision::accumulator<std::remove_const_t<X>>;
    G* const totals[]{dgamma.data(), dbeta.data()};
    with_arch([&](auto tag) {
        detail::sum_columns<Sum>(rows, columns, 4, std::span<G* const, 2>(totals), [&](Sum* sums, std::size_t begin, std::size_t end) {
            for (std::size_t n = begin; n < end; ++n)
                arch::layernorm_backward_row(tag, dy.row(n).data(), x.row(n).data(), gamma.data(),
                                             arch::RowStatistics<Sum>{mean(n), rstd(n)}, dx.row(n).data(), sums, sums + columns, columns);
        });
    });
}

/// y = x / sqrt(mean(x^2) + eps), rounded to the type of x, times gamma (as Hugging Face's Llama does it).
template <class X, class W, precision::compute_element Y, class A>
void rmsnorm_forward(View<X, 2> x,              // (N,C)
                     View<W, 1> gamma,          // (C)
                     double eps, View<Y, 2> y,  // (N,C)
                     View<A, 1> rstd) {         // (N)
    static_assert(std::same_as<A, precision::accumulator<std::remove_const_t<X>>>,
                  "lockstep: statistics must be in the accumulator of x; see lockstep/kernel/normalize.hpp");
    std::size_t const rows = x.extent(0), columns = x.extent(1);
    require_shape("rmsnorm_forward", "gamma", gamma, columns);
    require_shape("rmsnorm_forward", "y", y, rows, columns);
    require_shape("rmsnorm_forward", "rstd", rstd, rows);
    if (columns == 0) return;
    with_arch([&](auto tag) {
        runtime::parallel_for(rows, 2 * columns, [&](std::size_t n) {
            rstd(n) = arch::rmsnorm_row(tag, x.row(n).data(), gamma.data(), eps, y.row(n).data(), columns);
        });
    });
}

/// Overwrites dx, which may be the memory of dy or x; adds to dgamma, in an order that depends on N only.
template <class DY, class X, class W, class A, precision::compute_element DX, precision::master_element G>
void rmsnorm_backward(View<DY, 2> dy,       // (N,C)
                      View<X, 2>  x,        // (N,C)
                      View<W, 1>  gamma,    // (C)
                      View<A, 1>  rstd,     // (N)
                      View<DX, 2> dx,       // (N,C)
                      View<G, 1>  dgamma) {  // (C)
    std::size_t const rows = x.extent(0), columns = x.extent(1);
    require_shape("rmsnorm_backward", "dy", dy, rows, columns);
    require_shape("rmsnorm_backward", "gamma", gamma, columns);
    require_shape("rmsnorm_backward", "rstd", rstd, rows);
    require_shape("rmsnorm_backward", "dx", dx, rows, columns);
    require_shape("rmsnorm_backward", "dgamma", dgamma, columns);
    if (columns == 0) return;
    using Sum = precision::accumulator<std::remove_const_t<X>>;
    G* const totals[]{dgamma.data()};
    with_arch([&](auto tag) {
        detail::sum_columns<Sum>(rows, columns, 4, std::span<G* const, 1>(totals), [&](Sum* sums, std::size_t begin, std::size_t end) {
            for (std::size_t n = begin; n < end; ++n)
                arch::rmsnorm_backward_row(tag, dy.row(n).data(), x.row(n).data(), gamma.data(), Sum{rstd(n)}, dx.row(n).data(), sums,
                                           columns);
        });
    });
}

}  // namespace lockstep::kernel
