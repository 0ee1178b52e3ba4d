#pragma once
// One parameter with its optimizer and state, updated as a trainer does it.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "lockstep/optim/optimizer.hpp"

/// A matrix of one row, so that it decays by default, or a vector.
inline lockstep::state::Parameter a_parameter(std::size_t size, int dimensions = 2) {
    lockstep::state::Parameter parameter;
    parameter.name       = dimensions == 2 ? "matrix" : "vector";
    parameter.rows       = dimensions == 2 ? 1 : size;
    parameter.columns    = dimensions == 2 ? size : 1;
    parameter.dimensions = dimensions;
    parameter.map        = {parameter.rows, parameter.columns};
    parameter.decays     = dimensions == 2;
    return parameter;
}

template <class O, class T = double>
struct Trained {
    O                           optimizer;
    std::vector<T>              values;
    lockstep::state::Parameter  parameter = a_parameter(values.size());
    std::vector<std::vector<T>> state     = std::vector<std::vector<T>>(O::state_slots, std::vector<T>(values.size()));
    std::uint64_t               steps     = 0;

    /// The elements begin..end only, in update number `step`.
    void update(lockstep::Range range, std::vector<T> const& gradients, lockstep::optim::StepInfo step) {
        lockstep::optim::Slots<O, T> slots;
        for (std::size_t s = 0; s < slots.size(); ++s) slots[s] = std::span(state[s]).subspan(range.begin, range.size());
        optimizer.update(lockstep::optim::Slice<T>{parameter, range, std::span(values).subspan(range.begin, range.size()),
                                                   std::span<T const>(gradients).subspan(range.begin, range.size())},
                         slots, step);
    }

    void update(std::vector<T> const& gradients, double learning_rate, double gradient_scale = 1) {
        update({0, values.size()}, gradients, {.step = ++steps, .learning_rate = learning_rate, .gradient_scale = gradient_scale});
    }
};

/// Five gradients of three elements and the learning rates that went with them in PyTorch's float64 runs.
struct ReferenceRun {
    std::vector<std::vector<double>> gradients{{0.3, -1.2, 0}, {0.05, 0.7, -2e-3}, {-0.4, 0.1, 5e-3}, {1.5, -0.2, 0}, {-0.01, 0.6, -1e-3}};
    std::vector<double>              learning_rates{0.1, 0.1, 0.05, 0.02, 0.1};

    template <class O>
    Trained<O> run(O optimizer) const {
        Trained<O> trained{optimizer, {1, -0.5, 0.25}};
        for (std::size_t s = 0; s < gradients.size(); ++s) trained.update(gradients[s], learning_rates[s]);
        return trained;
    }
};
