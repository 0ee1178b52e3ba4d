#pragma once
// Products by plain loops: one sum per output element, in the accumulator type, in the order of the steps.

#include <cstddef>
#include <type_traits>

#include "lockstep/kernel/arch/tags.hpp"
#include "lockstep/precision/mixed.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/state/layout.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel::arch {

using state::Matrix;
using tensor::View;

template <class T>
using accumulator = precision::accumulator<std::remove_const_t<T>>;

/// y = x W^T + bias
template <class X, class W, class B, class Y>
void gemm_forward(scalar, View<X, 2> x, Matrix<W> w, View<B, 1> bias, View<Y, 2> y) {
    using Sum = accumulator<X>;
    runtime::parallel_for(x.extent(0), w.rows() * w.columns(), [&](std::size_t n) {
        for (std::size_t m = 0; m < w.rows(); ++m) {
            Sum sum = 0;
            for (std::size_t k = 0; k < w.columns(); ++k) sum += static_cast<Sum>(x(n, k)) * static_cast<Sum>(w(m, k));
            y(n, m) = static_cast<Y>(bias.empty() ? sum : sum + static_cast<Sum>(bias(m)));
        }
    });
}

/// dx = dy W
template <class DY, class W, class DX>
void gemm_input_grad(scalar, View<DY, 2> dy, Matrix<W> w, View<DX, 2> dx) {
    using Sum = accumulator<W>;
    runtime::parallel_for(dy.extent(0), w.rows() * w.columns(), [&](std::size_t n) {
        for (std::size_t k = 0; k < w.columns(); ++k) {
            Sum sum = 0;
            for (std::size_t m = 0; m < w.rows(); ++m) sum += static_cast<Sum>(dy(n, m)) * static_cast<Sum>(w(m, k));
            dx(n, k) = static_cast<DX>(sum);
        }
    });
}

/// dw += dy^T x
template <class DY, class X, class G>
void gemm_weight_grad(scalar, View<DY, 2> dy, View<X, 2> x, Matrix<G> dw) {
    runtime::parallel_for(dw.rows(), dw.columns() * dy.extent(0), [&](std::size_t m) {
        for (std::size_t k = 0; k < dw.columns(); ++k) {
            G sum = 0;
            for (std::size_t n = 0; n < dy.extent(0); ++n) sum += static_cast<G>(dy(n, m)) * static_cast<G>(x(n, k));
            dw(m, k) += sum;
        }
    });
}

/// db += column sums of dy
template <class DY, class G>
void bias_grad(scalar, View<DY, 2> dy, View<G, 1> db) {
    runtime::parallel_for(dy.extent(1), dy.extent(0), [&](std::size_t m) {
        G sum = 0;
        for (std::size_t n = 0; n < dy.extent(0); ++n) sum += static_cast<G>(dy(n, m));
        db(m) += sum;
    });
}

}  // namespace lockstep::kernel::arch
