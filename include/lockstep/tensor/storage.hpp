#pragma once
// The storage policy: where the buffers of a run and the activations of a step live.

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>

#include "lockstep/observe/ledger.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::tensor {

/// Owns zero-filled elements that stay where they are while it lives, booked under a category.
template <class B, class T>
concept buffer = std::movable<B> && std::constructible_from<B, std::size_t, observe::Category> && requires(B b) {
    { b.span() } -> std::same_as<std::span<T>>;
};

/// A stack of tensors. `take` gives uninitialised memory, `rewind` gives back what was taken since a mark,
/// `keep` does so too but saves one tensor: it returns where that tensor is now.
template <class W>
concept workspace = std::movable<W> && requires(W w, View<float, 2> view) {
    { w.template take<float, 2>({1, 1}) } -> std::same_as<View<float, 2>>;
    { w.mark() } -> std::copyable;
    w.rewind(w.mark());
    { w.keep(w.mark(), view) } -> std::same_as<View<float, 2>>;
};

template <class S>
concept provides_buffers = buffer < typename S::template Buffer<float>,
float > ;
template <class S>
concept provides_workspace = workspace<typename S::Workspace>;

/// What a storage policy must provide.
template <class S>
concept storage = provides_buffers<S> && provides_workspace<S>;

}  // namespace lockstep::tensor
