#pragma once
// GELU (Hendrycks, Gimpel 2016, arXiv:1606.08415, tanh form) and SwiGLU (Shazeer 2020, arXiv:2002.05202).

#include "lockstep/kernel/activation.hpp"
#include "lockstep/nn/module.hpp"

namespace lockstep::nn {

/// Legend: N tokens, F features.
struct Gelu {
    std::string name;

    template <class T>
    struct Saved {
        View<T, 2> x;  // (N,F)
    };

    void declare(Declaration&) const {}

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        saved.x = x;
        auto y  = pass.activation(x.extent(0), x.extent(1));  // (N,F)
        kernel::gelu_forward(x, y);
        return y;
    }

    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        auto dx = pass.activation(dy.extent(0), dy.extent(1));  // (N,F)
        kernel::gelu_backward(saved.x, dy, dx);
        return dx;
    }

    template <class T, class F>
    void inspect(Saved<T> const& saved, F&& visit) const {
        visit(name + ".input", saved.x);
    }
};
static_assert(module<Gelu>);

/// y = silu(gate) * up, where a row of x holds gate and then up. Legend: N tokens, F features.
struct SwiGlu {
    std::string name;

    template <class T>
    struct Saved {
        View<T, 2> x;  // (N,2F)
    };

    void declare(Declaration&) const {}

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        saved.x = x;
        auto y  = pass.activation(x.extent(0), x.extent(1) / 2);  // (N,F)
        kernel::swiglu_forward(x, y);
        return y;
    }

    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        auto dx = pass.activation(dy.extent(0), 2 * dy.extent(1));  // (N,2F)
        kernel::swiglu_backward(saved.x, dy, dx);
        return dx;
    }

    template <class T, class F>
    void inspect(Saved<T> const& saved, F&& visit) const {
        visit(name + ".input", saved.x);
    }
};
static_assert(module<SwiGlu>);

}  // namespace lockstep::nn
