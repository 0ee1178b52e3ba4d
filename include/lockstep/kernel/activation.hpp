#pragma once
// GELU in its tanh form (Hendrycks, Gimpel 2016, arXiv:1606.08415) and SwiGLU (Shazeer 2020, arXiv:2002.05202), forward beside backward.
// Legend: N rows, F features. All arithmetic in the accumulator, rounded once. Inputs may be views of const elements.

#include <cstddef>

#include "lockstep/kernel/arch/simd_activation.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/kernel/row_pieces.hpp"
#include "lockstep/kernel/shape.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel {

using tensor::View;

namespace detail {
/// Elementary operations of an exponential and what surrounds it.
inline constexpr std::size_t exponential_cost = 4;
}  // namespace detail

/// y = gelu(x). y may be the memory of x.
template <class X, precision::compute_element Y>
void gelu_forward(View<X, 2> x,    // (N,F)
                  View<Y, 2> y) {  // (N,F)
    require_shape("gelu_forward", "y", y, x.extent(0), x.extent(1));
    with_arch([&](auto tag) {
        for_each_piece(x.extent(0), x.extent(1), detail::exponential_cost, [&](std::size_t n, std::size_t begin, std::size_t end) {
            arch::gelu_block(tag, x.row(n).data() + begin, y.row(n).data() + begin, end - begin);
        });
    });
}

/// dx = dy * gelu'(x). dx may be the memory of dy or x.
template <class X, class DY, precision::compute_element DX>
void gelu_backward(View<X, 2>  x,     // (N,F)
                   View<DY, 2> dy,    // (N,F)
                   View<DX, 2> dx) {  // (N,F)
    require_shape("gelu_backward", "dy", dy, x.extent(0), x.extent(1));
    require_shape("gelu_backward", "dx", dx, x.extent(0), x.extent(1));
    with_arch([&](auto tag) {
        for_each_piece(x.extent(0), x.extent(1), detail::exponential_cost, [&](std::size_t n, std::size_t begin, std::size_t end) {
            arch::gelu_backward_block(tag, x.row(n).data() + begin, dy.row(n).data() + begin, dx.row(n).data() + begin, end - begin);
        });
    });
}

/// y = silu(gate) * up; x holds gate and up side by side.
template <class X, precision::compute_element Y>
void swiglu_forward(View<X, 2> x,    // (N,2F)
                    View<Y, 2> y) {  // (N,F)
    std::size_t const rows = x.extent(0), half = y.extent(1);
    require_shape("swiglu_forward", "x", x, y.extent(0), 2 * half);
    with_arch([&](auto tag) {
        for_each_piece(rows, half, detail::exponential_cost, [&](std::size_t n, std::size_t begin, std::size_t end) {
            auto const* const gate = x.row(n).data() + begin;
            arch::swiglu_block(tag, gate, gate + half, y.row(n).data() + begin, end - begin);
        });
    });
}

/// The gradients of gate and up side by side. dx may be the memory of x.
template <class X, class DY, precision::compute_element DX>
void swiglu_backward(View<X, 2>  x,     // (N,2F)
                     View<DY, 2> dy,    // (N,F)
                     View<DX, 2> dx) {  // (N,2F)
    std::size_t const rows = x.extent(0), half = dy.extent(1);
    require_shape("swiglu_backward", "x", x, dy.extent(0), 2 * half);
    require_shape("swiglu_backward", "dx", dx, rows, 2 * half);
    with_arch([&](auto tag) {
        for_each_piece(rows, half, 2 * detail::exponential_cost, [&](std::size_t n, std::size_t begin, std::size_t end) {
            auto const* const gate  = x.row(n).data() + begin;
            auto* const       dgate = dx.row(n).data() + begin;
            arch::swiglu_backward_block(tag, gate, gate + half, dy.row(n).data() + begin, dgate, dgate + half, end - begin);
        });
    });
}

}  // namespace lockstep::kernel
