#pragma once
// Recompute (activation checkpointing; Chen et al. 2016, arXiv:1604.06174): keep a module's input only, run it again in backward.
// Random numbers are functions of their element, so the second run draws the same masks.

#include "lockstep/nn/module.hpp"

namespace lockstep::nn {

template <class Body>
struct Recompute {
    static_assert(
        module<Body>,
        "lockstep: Module must declare its parameters, name what it saves, run forward beside backward and show what it saved; see "
        "lockstep/nn/module.hpp");

    Body body;
    bool enabled = true;

    static constexpr bool overwrites_input    = nn::overwrites_input<Body>;
    static constexpr bool overwrites_gradient = nn::overwrites_gradient<Body>;
    static constexpr bool returns_gradient    = nn::returns_gradient<Body>;
    static constexpr bool keeps_output        = nn::keeps_output<Body>;
    static_assert(!overwrites_input,
                  "lockstep: the body of Recompute must not overwrite its input, which is needed again; see lockstep/nn/module.hpp");

    template <class T>
    struct Saved {
        View<T, 2>                       x;     // the input, where enabled
        typename Body::template Saved<T> body;  // what the body saved, where not
    };

    void declare(Declaration& declaration) { body.declare(declaration); }

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        if (!enabled) return body.forward(pass, x, saved.body);
        saved.x                               = x;
        auto const                       mark = pass.workspace->mark();
        typename Body::template Saved<T> discarded;
        return pass.workspace->keep(mark, body.forward(pass, x, discarded));
    }

    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        if (!enabled) return body.backward(pass, dy, saved.body);
        auto const                       mark = pass.workspace->mark();
        typename Body::template Saved<T> again;
        body.forward(pass, saved.x, again);
        return pass.workspace->keep(mark, body.backward(pass, dy, again));
    }

    template <class S, class F>
    void inspect(S const& saved, F&& visit) const {
        if (!enabled) body.inspect(saved.body, visit);
    }
};

}  // namespace lockstep::nn
