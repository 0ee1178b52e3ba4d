#pragma once
// The module contract: forward beside backward, and the type of what forward saves for it. The autograd graph is a type.

#include <concepts>

#include "lockstep/nn/pass.hpp"
#include "lockstep/tensor/arena_storage.hpp"

namespace lockstep::nn {

/// What a module saves between forward and backward: a default-constructible struct of views.
template <class M, class T>
using Saved = typename M::template Saved<T>;

template <class M, class T>
concept declares_what_it_saves = std::default_initializable<Saved<M, T>>;

/// Adds its parameters to the unit's table and remembers where they stand.
template <class M>
concept declares_parameters = requires(M module, Declaration& declaration) {
    module.declare(declaration);
};

/// y = forward(pass, x, saved): a new activation, unless the module overwrites its input.
template <class M, class P>
concept runs_forward = requires(M const module, P& pass, View<typename P::element, 2> x, Saved<M, typename P::element>& saved) {
    { module.forward(pass, x, saved) } -> std::same_as<View<typename P::element, 2>>;
};

/// dx = backward(pass, dy, saved): adds to the gradients of its parameters, reports each by pass.contributed, and leaves dy as it was.
template <class M, class P>
concept runs_backward = requires(M const module, P& pass, View<typename P::element, 2> dy, Saved<M, typename P::element>& saved) {
    { module.backward(pass, dy, saved) } -> std::same_as<View<typename P::element, 2>>;
};

/// Calls visit(name, view) for each tensor that forward saved.
template <class M, class T>
concept shows_what_it_saves = requires(M const module, Saved<M, T> const& saved) {
    module.inspect(saved, [](auto const&, auto const&) {});
};

/// What a module must provide for a pass.
template <class M, class P = Pass<float, tensor::ArenaStorage>>
concept module = declares_what_it_saves<M, typename P::element> && declares_parameters<M> && runs_forward<M, P> && runs_backward<M, P> &&
    shows_what_it_saves<M, typename P::element>;

/// True for a module whose forward writes its result over its input. It may not come first in a chain.
template <class M>
inline constexpr bool overwrites_input = requires {
    requires M::overwrites_input;
};

/// True for a module whose backward writes dx over dy. It may not come last in a chain.
template <class M>
inline constexpr bool overwrites_gradient = requires {
    requires M::overwrites_gradient;
};

/// True for a module whose backward may return dy itself, so that a module before it must not overwrite its gradient for it.
template <class M>
inline constexpr bool returns_gradient = requires {
    requires M::returns_gradient;
};

/// True for a module that saves its own output: nothing may be written over it.
template <class M>
inline constexpr bool keeps_output = requires {
    requires M::keeps_output;
};

}  // namespace lockstep::nn
