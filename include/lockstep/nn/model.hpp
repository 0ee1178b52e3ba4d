#pragma once
// What a trainer needs of a model: its units, and how each runs forward and backward.

#include <concepts>
#include <optional>

#include "lockstep/core/exact_sum.hpp"
#include "lockstep/nn/pass.hpp"
#include "lockstep/state/model_sizes.hpp"

namespace lockstep::nn {

/// What a model is built with besides its sizes.
struct ModelOptions {
    float                        dropout     = 0;      // on embeddings, attention weights and both residual branches
    bool                         recompute   = false;  // keep only the inputs of blocks
    std::size_t                  unit_blocks = 1;      // blocks a unit; 0: the whole model is one unit
    std::optional<state::Layout> layout      = {};     // of matrices; empty: what the kernels in use read best
};

/// Is built from sizes and options, and tells its sizes.
template <class M>
concept has_sizes = std::constructible_from<M, state::ModelSizes const&, ModelOptions const&> && requires(M const model) {
    { model.sizes() } -> std::convertible_to<state::ModelSizes const&>;
};

/// Names its storage policy and lists its units: unit 0 is the root, the others are blocks in their order.
template <class M>
concept lists_units = requires(M const model) {
    requires tensor::storage<typename M::storage>;
    { model.units() } -> std::convertible_to<std::span<state::Unit const>>;
};

/// Embedding and blocks run forward, each with what it saves; the loss alone is for evaluation.
template <class M, class T>
concept runs_units_forward = requires(M const model, Pass<T, typename M::storage>& pass, View<T, 2> x, std::span<std::int32_t const> ids) {
    requires requires(decltype(model.template make_saved<T>())& saved) {
        { model.embed(pass, ids, saved) } -> std::same_as<View<T, 2>>;
        { model.block(std::size_t{}, pass, x, saved) } -> std::same_as<View<T, 2>>;
        { model.loss(pass, x, ids, saved) } -> std::same_as<ExactSum>;
    };
};

/// Blocks and embedding run backward. Backward begins with the loss, which comes with its gradient.
template <class M, class T>
concept runs_units_backward = requires(M const model, Pass<T, typename M::storage>& pass, View<T, 2> x, std::span<std::int32_t const> ids,
                                       ExactSum& loss) {
    requires requires(decltype(model.template make_saved<T>())& saved) {
        { model.loss_backward(pass, x, ids, precision::accumulator<T>{}, saved, loss) } -> std::same_as<View<T, 2>>;
        { model.block_backward(std::size_t{}, pass, x, saved) } -> std::same_as<View<T, 2>>;
        model.embed_backward(pass, x, saved);
    };
};

/// The blocks that a unit holds: what the model's `blocks(unit)` says; without it, unit 1 + l is block l.
template <class M>
Range blocks_of(M const& model, std::size_t unit) {
    if constexpr (requires {
                      { model.blocks(unit) } -> std::same_as<Range>;
                  })
        return model.blocks(unit);
    else
        return unit == 0 ? Range{} : Range{unit - 1, unit};
}

/// Sampling asks for `logits(pass, x)` too, inspection for `inspect(saved, visit)`: only those who use them need them.
template <class M, class T>
concept model = has_sizes<M> && lists_units<M> && runs_units_forward<M, T> && runs_units_backward<M, T>;

}  // namespace lockstep::nn
