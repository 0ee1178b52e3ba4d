#pragma once
// Dropout by counter-based random numbers (Srivastava et al. 2014): the mask is a function of seed, version and element.

#include "lockstep/kernel/dropout.hpp"
#include "lockstep/kernel/elementwise.hpp"
#include "lockstep/nn/module.hpp"

namespace lockstep::nn {

/// Drops elements with the given probability in training and scales the rest by 1 / (1 - probability). Legend: N tokens, C channels.
struct Dropout {
    float         probability = 0;
    std::uint32_t random_site = 0;  // set by declare

    static constexpr bool overwrites_input = true;
    static constexpr bool returns_gradient = true;  // where nothing is dropped

    template <class T>
    struct Saved {};

    void declare(Declaration& declaration) { random_site = declaration.random_site(); }

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>&) const {
        if (active(pass)) kernel::dropout(x, probability, pass.random(random_site), first_element(pass, x));
        return x;
    }

    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>&) const {
        if (!active(pass)) return dy;
        auto dx = pass.activation(dy.extent(0), dy.extent(1));  // (N,C)
        kernel::copy(dy, dx);
        kernel::dropout(dx, probability, pass.random(random_site), first_element(pass, dx));
        return dx;
    }

    template <class T, class F>
    void inspect(Saved<T> const&, F&&) const {}

private:
    template <class P>
    bool active(P const& pass) const noexcept {
        return probability > 0 && pass.training;
    }
    template <class P, class T>
    static std::uint64_t first_element(P const& pass, View<T, 2> x) noexcept {
        return pass.first_sample * pass.sequence * x.extent(1);
    }
};
static_assert(module<Dropout>);

}  // namespace lockstep::nn
