#pragma once
// Gradient check: a module's backward against central differences of its forward, in double.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/nn/module.hpp"

namespace lockstep::nn {

struct GradientCheckOptions {
    std::size_t   batch    = 2;
    std::size_t   sequence = 5;
    std::size_t   columns  = 8;     // of the input (batch * sequence, columns)
    double        step     = 1e-5;  // of the differences
    double        spread   = 0.5;   // standard deviation of parameters around their initial mean, and of the input
    std::uint64_t seed     = 1;
    bool          training = true;
};

/// The largest deviation found, relative to the largest derivative in the same tensor (to 1 where all are smaller).
struct GradientCheck {
    double      worst = 0;
    std::string where;  // "input" or the name of a parameter
    std::string fault;  // what else is wrong: a gradient not reported as often as it is used, a tensor written over; empty if nothing
};

/// Checks the gradients of a random linear function of the module's output with respect to its input and all its parameters.
template <class M>
    requires module<M, Pass<double, tensor::ArenaStorage>> GradientCheck check_gradients(M                           module,
                                                                                         GradientCheckOptions const& options = {}) {
        using Storage = tensor::ArenaStorage;
        using P       = Pass<double, Storage>;

        state::Unit unit{.name = "checked", .parameters = {}};
        Declaration declaration(unit);
        module.declare(declaration);

        std::vector<double> weights(unit.size), gradients(unit.size, 1.0);  // not zero: backward must add
        std::vector<double> input(options.batch * options.sequence * options.columns);
        for (state::Parameter const& parameter : unit.parameters)
            for (std::size_t i = 0; i < parameter.size(); ++i)
                weights[parameter.offset + i] =
                    parameter.initial.mean + options.spread * random_normal({options.seed, parameter.purpose, 1}, i);
        for (std::size_t i = 0; i < input.size(); ++i) input[i] = options.spread * random_normal({options.seed, 0, 2}, i);

        std::vector<std::uint32_t>  reported(unit.parameters.size());
        typename Storage::Workspace workspace;
        P                           pass;
        pass.workspace = &workspace;
        pass.unit      = &unit;
        pass.weights   = weights;
        pass.gradients = gradients;
        pass.batch     = options.batch;
        pass.sequence  = options.sequence;
        pass.training  = options.training;
        pass.seed      = options.seed;
        pass.sink      = {&reported,
                          [](void* object, std::size_t, ParameterIndex i) { ++(*static_cast<std::vector<std::uint32_t>*>(object))[i]; }};

        // The input is copied for each run, since a module may write over it.
        auto const copy_input = [&] {
            workspace.rewind({});
            auto x = pass.activation(options.batch * options.sequence, options.columns);
            std::copy(input.begin(), input.end(), x.data());
            return x;
        };
        auto const weight_of = [&](std::size_t i) { return random_normal({options.seed, 0, 3}, i); };
        auto const value     = [&] {
            Saved<M, double> saved;
            auto const       y   = module.forward(pass, copy_input(), saved);
            double           sum = 0;
            for (std::size_t i = 0; i < y.size(); ++i) sum += weight_of(i) * y.data()[i];
            return sum;
        };

        Saved<M, double> saved;
        auto const       x  = copy_input();
        auto const       y  = module.forward(pass, x, saved);
        auto             dy = pass.activation(y.extent(0), y.extent(1));
        for (std::size_t i = 0; i < y.size(); ++i) dy.data()[i] = weight_of(i);
        if (!keeps_output<M> && y.data() != x.data()) std::fill_n(y.data(), y.size(), std::nan(""));  // another module may write over it
        auto const                dx = module.backward(pass, dy, saved);
        std::vector<double> const input_gradient(dx.data(), dx.data() + dx.size());
        for (double& gradient : gradients) gradient -= 1.0;

        GradientCheck result;
        if (!overwrites_input<M> && !std::equal(input.begin(), input.end(), x.data())) result.fault = "the input was written over";
        for (std::size_t i = 0; i < dy.size(); ++i)
            if (!overwrites_gradient<M> && dy.data()[i] != weight_of(i)) result.fault = "the gradient of the output was written over";
        auto const compare = [&](std::string const& where, double* values, double const* analytic, std::size_t count) {
            std::vector<double> numeric(count);
            double              largest = 1;
            for (std::size_t i = 0; i < count; ++i) {
                double const before = values[i];
                values[i]           = before + options.step;
                double const above  = value();
                values[i]           = before - options.step;
                double const below  = value();
                values[i]           = before;
                numeric[i]          = (above - below) / (2 * options.step);
                largest             = std::max(largest, std::abs(numeric[i]));
            }
            for (std::size_t i = 0; i < count; ++i) {
                double const deviation = std::abs(numeric[i] - analytic[i]) / largest;
                if (!(deviation <= result.worst) && !std::isnan(result.worst)) result.worst = deviation, result.where = where;
            }
        };
        compare("input", input.data(), input_gradient.data(), input.size());
        for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
            state::Parameter const& parameter = unit.parameters[p];
            compare(parameter.name, weights.data() + parameter.offset, gradients.data() + parameter.offset, parameter.size());
            if (reported[p] != parameter.uses)
                result.fault = parameter.name + " is used " + std::to_string(parameter.uses) + " times, its gradient was reported " +
                               std::to_string(reported[p]) + " times";
        }
        return result;
    }

}  // namespace lockstep::nn
