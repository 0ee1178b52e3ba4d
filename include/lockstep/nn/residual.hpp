#pragma once
// Residual: y = x + body(x); the gradient reaches x on both ways and adds up.

#include "lockstep/kernel/elementwise.hpp"
#include "lockstep/nn/module.hpp"

namespace lockstep::nn {

template <class Body>
struct Residual {
    static_assert(
        module<Body>,
        "lockstep: Module must declare its parameters, name what it saves, run forward beside backward and show what it saved; see "
        "lockstep/nn/module.hpp");
    static_assert(!overwrites_input<Body> && !overwrites_gradient<Body>,
                  "lockstep: the body of Residual must not overwrite its input or gradient; see lockstep/nn/module.hpp");

    Body body;

    template <class T>
    using Saved = typename Body::template Saved<T>;

    void declare(Declaration& declaration) { body.declare(declaration); }

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        auto y = body.forward(pass, x, saved);
        if constexpr (keeps_output<Body>) {
            auto sum = pass.activation(y.extent(0), y.extent(1));
            kernel::copy(y, sum);
            y = sum;
        }
        kernel::add(x, y);
        return y;
    }

    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        auto dx = body.backward(pass, dy, saved);
        kernel::add(dy, dx);
        return dx;
    }

    template <class S, class F>
    void inspect(S const& saved, F&& visit) const {
        body.inspect(saved, visit);
    }
};

}  // namespace lockstep::nn
