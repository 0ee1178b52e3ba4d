#pragma once
// The feed-forward layer of GPT-2 as one module: GELU and its gradient are part of the products beside them.

#include "lockstep/kernel/gemm_gelu.hpp"
#include "lockstep/nn/linear.hpp"

namespace lockstep::nn {

/// y = gelu(x W1^T + b1) W2^T + b2, the same as Sequential<Linear, Gelu, Linear>. Legend: N tokens, C channels, F features.
struct GeluFeedForward {
    Linear      in;    // C to F
    std::string name;  // of what lies between
    Linear      out;   // F to C

    template <class T>
    struct Saved {
        View<T, 2> x;    // (N,C)
        View<T, 2> pre;  // (N,F), before GELU
        View<T, 2> h;    // (N,F), after it
    };

    void declare(Declaration& declaration) {
        in.declare(declaration);
        out.declare(declaration);
    }

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        std::size_t const n = x.extent(0);
        saved               = {x, pass.activation(n, in.out), pass.activation(n, in.out)};
        kernel::gemm_forward_gelu(x, pass.matrix(in.weight_index), in.bias(pass), saved.pre, saved.h);
        auto y = pass.activation(n, out.out);  // (N,C)
        kernel::gemm_forward(saved.h, pass.matrix(out.weight_index), out.bias(pass), y);
        return y;
    }

    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        out.add_gradients(pass, dy, saved.h);
        auto dpre = pass.activation(dy.extent(0), out.in);  // (N,F)
        kernel::gemm_input_grad_gelu(dy, pass.matrix_for_input_grad(out.weight_index), saved.pre, dpre);
        in.add_gradients(pass, dpre, saved.x);
        auto dx = pass.activation(dy.extent(0), in.in);  // (N,C)
        kernel::gemm_input_grad(dpre, pass.matrix_for_input_grad(in.weight_index), dx);
        return dx;
    }

    template <class T, class F>
    void inspect(Saved<T> const& saved, F&& visit) const {
        visit(in.name + ".input", saved.x);
        visit(name + ".input", saved.pre);
        visit(out.name + ".input", saved.h);
    }
};
static_assert(module<GeluFeedForward>);

}  // namespace lockstep::nn
