#pragma once
// A model run forward and backward on one micro-batch, without a trainer. Weights are functions of their logical element.

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/nn/transformer.hpp"

template <class Model, class T>
class ModelRun {
    using A = lockstep::precision::accumulator<T>;

public:
    std::uint64_t version = 0;
    double        loss    = 0;  // of the last run

    ModelRun(lockstep::state::ModelSizes const& sizes, lockstep::nn::ModelOptions const& options) : model_(sizes, options) {
        for (lockstep::state::Unit const& unit : model_.units()) {
            weights_.emplace_back(unit.size);
            gradients_.emplace_back(unit.size);
            for (lockstep::state::Parameter const& p : unit.parameters)
                for (std::size_t e = 0; e < p.elements(); ++e)
                    weights_.back()[place(p, e)] =
                        static_cast<T>(static_cast<float>(p.initial.mean + 0.2 * lockstep::random_normal({1, p.purpose, 0}, e)));
        }
    }

    Model const& model() const { return model_; }

    /// One forward and one backward pass; gradients add up over runs.
    void run(std::span<std::int32_t const> tokens, std::span<std::int32_t const> labels, std::size_t batch) {
        workspace_.rewind({});
        std::size_t const layers = model_.sizes().layers;
        auto              saved  = model_.template make_saved<T>();
        auto              root   = pass(0, tokens.size(), batch);
        auto              x      = model_.embed(root, tokens, saved);  // (N,C)
        for (std::size_t layer = 0; layer < layers; ++layer) {
            auto block = pass(1 + layer, tokens.size(), batch);
            x          = model_.block(layer, block, x, saved);
        }
        lockstep::ExactSum sum;
        auto               dx = model_.loss_backward(root, x, labels, A(1) / static_cast<A>(tokens.size()), saved, sum);  // (N,C)
        loss                  = sum.value();
        for (std::size_t layer = layers; layer-- > 0;) {
            auto block = pass(1 + layer, tokens.size(), batch);
            dx         = model_.block_backward(layer, block, dx, saved);
        }
        model_.embed_backward(root, dx, saved);
    }

    /// The gradients of all parameters, each row-major: the layout is undone.
    std::vector<A> gradients() const {
        std::vector<A> values;
        for (std::size_t u = 0; u < gradients_.size(); ++u)
            for (lockstep::state::Parameter const& p : model_.units()[u].parameters)
                for (std::size_t e = 0; e < p.elements(); ++e) values.push_back(gradients_[u][place(p, e)]);
        return values;
    }

    /// How many elements the layout adds, and how many of them have a gradient.
    struct Padding {
        std::size_t elements = 0;
        std::size_t touched  = 0;
    };
    Padding padding() const {
        Padding result;
        for (std::size_t u = 0; u < gradients_.size(); ++u) {
            std::vector<bool> real(gradients_[u].size());
            for (lockstep::state::Parameter const& p : model_.units()[u].parameters)
                for (std::size_t e = 0; e < p.elements(); ++e) real[place(p, e)] = true;
            for (std::size_t i = 0; i < real.size(); ++i)
                if (!real[i]) ++result.elements, result.touched += gradients_[u][i] != 0;
        }
        return result;
    }

private:
    static std::size_t place(lockstep::state::Parameter const& p, std::size_t element) {
        return p.offset + p.map(element / p.columns, element % p.columns);
    }

    typename Model::template PassOf<T> pass(std::size_t unit, std::size_t tokens, std::size_t batch) {
        typename Model::template PassOf<T> pass;
        pass.workspace = &workspace_;
        pass.unit      = &model_.units()[unit];
        pass.index     = unit;
        pass.weights   = weights_[unit];
        pass.gradients = gradients_[unit];
        pass.batch     = batch;
        pass.sequence  = tokens / batch;
        pass.seed      = 5;
        pass.version   = version;
        return pass;
    }

    Model                              model_;
    std::vector<std::vector<T>>        weights_;
    std::vector<std::vector<A>>        gradients_;
    typename Model::storage::Workspace workspace_;
};
