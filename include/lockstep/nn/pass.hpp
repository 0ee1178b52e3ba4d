#pragma once
// Pass: what a module sees of the step while one unit is in use.

#include <cstdint>
#include <span>

#include "lockstep/core/random.hpp"
#include "lockstep/nn/declaration.hpp"
#include "lockstep/precision/mixed.hpp"
#include "lockstep/tensor/row_stride.hpp"
#include "lockstep/tensor/storage.hpp"

namespace lockstep::nn {

using tensor::View;

/// Told each time a module has added its contribution to the gradient of a parameter: as often as the parameter is used.
struct GradientSink {
    void* object                                                              = nullptr;
    void (*contributed)(void* object, std::size_t unit, ParameterIndex index) = nullptr;
};

/// The weights and gradients of one unit, the shape of the micro-batch, random numbers and memory. Modules count parameters from the first
/// one of their block, of which a unit may hold several.
template <class T, class Storage>
class Pass {
public:
    using element     = T;
    using accumulator = precision::accumulator<T>;
    using Workspace   = typename Storage::Workspace;

    Workspace*             workspace = nullptr;
    state::Unit const*     unit      = nullptr;
    std::size_t            index     = 0;     // of the unit
    std::size_t            place     = 0;     // in the model: 0 for embedding and head, 1 + l for block l
    ParameterIndex         first     = 0;     // of the block's parameters in the unit's table
    std::span<T const>     weights;           // of the unit, in its layout: the copy that forward reads
    std::span<T const>     weights_paired;    // the copy for input gradients; empty where there is one copy. One of both is there.
    std::span<accumulator> gradients;         // of the unit; empty in a forward pass
    std::size_t            batch        = 0;  // B
    std::size_t            sequence     = 0;  // T
    bool                   training     = true;
    std::uint64_t          seed         = 0;
    std::uint64_t          version      = 0;
    std::uint64_t          first_sample = 0;  // global index of the first sequence
    GradientSink           sink;

    std::size_t tokens() const noexcept { return batch * sequence; }  // N

    /// A weight, in the order that products of forward prefer.
    state::Matrix<T const> matrix(ParameterIndex i) const { return weights.empty() ? paired(i) : copy(i); }
    /// The same weight, in the order that input gradients prefer. Only in backward: before, it may still be on its way.
    state::Matrix<T const> matrix_for_input_grad(ParameterIndex i) const { return weights_paired.empty() ? copy(i) : paired(i); }
    View<T const, 1>       vector(ParameterIndex i) const {
              auto const values = parameter(i).vector(weights.empty() ? weights_paired : weights);
              return {values.data(), {values.size()}};
    }
    state::Matrix<accumulator> matrix_gradient(ParameterIndex i) const { return parameter(i).matrix(gradients); }
    View<accumulator, 1>       vector_gradient(ParameterIndex i) const {
              auto const values = parameter(i).vector(gradients);
              return {values.data(), {values.size()}};
    }

    /// A module calls this once per use of a parameter in backward, when its contribution has been added.
    void contributed(ParameterIndex i) const {
        if (sink.contributed != nullptr) sink.contributed(sink.object, index, first + i);
    }

    /// A new activation (rows, columns), uninitialised.
    View<T, 2> activation(std::size_t rows, std::size_t columns) const {
        return workspace->template take<T, 2>({rows, tensor::row_stride(columns, sizeof(T))}).columns(0, columns);
    }

    /// A new vector of statistics, uninitialised.
    View<accumulator, 1> statistics(std::size_t n) const { return workspace->template take<accumulator, 1>({n}); }

    /// Key of the random numbers of a site: the same on every rank, cut into units, layout and recomputation.
    RandomKey random(std::uint32_t site) const noexcept {
        return {seed, purpose::activations | static_cast<std::uint32_t>(place) << 8 | site, static_cast<std::uint32_t>(version)};
    }

private:
    state::Parameter const& parameter(ParameterIndex i) const { return unit->parameters[first + i]; }
    state::Matrix<T const>  copy(ParameterIndex i) const {
         auto matrix = parameter(i).matrix(weights);
         if (unit->paired) matrix.map = matrix.map.reordered(state::TileOrder::column_pairs);
        return matrix;
    }
    state::Matrix<T const> paired(ParameterIndex i) const {
        auto matrix = parameter(i).matrix(weights_paired);
        matrix.map  = matrix.map.reordered(state::TileOrder::row_pairs);
        return matrix;
    }
};

}  // namespace lockstep::nn
