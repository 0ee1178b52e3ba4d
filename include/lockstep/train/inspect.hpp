#pragma once
// Parameters, gradients and activations of a live trainer by name, as xtensor expressions.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/tensor/xtensor.hpp"
#include "lockstep/train/trainer.hpp"

namespace lockstep {

namespace detail {

struct Found {
    std::size_t             unit;
    state::Parameter const* parameter;
};

/// "root, h.0, h.1", the first ones of many.
inline std::string listed(std::span<state::Unit const> units) {
    constexpr std::size_t most = 8;
    std::string           names;
    for (state::Unit const& unit : units.first(std::min(most, units.size()))) names += (&unit == units.data() ? "" : ", ") + unit.name;
    return units.size() > most ? names + ", ..." : names;
}

inline Found find_parameter(std::span<state::Unit const> units, std::string_view name) {
    for (std::size_t u = 0; u < units.size(); ++u)
        for (state::Parameter const& parameter : units[u].parameters)
            if (parameter.name == name) return {u, &parameter};
    input_error("there is no parameter ", name, ": expected one of the units ", listed(units));
}

/// The whole of a unit of which each rank holds a part, its layout undone for one parameter.
template <class Trainer, class Part>
tensor::Array<typename Trainer::Master> whole_parameter(Trainer& trainer, std::string_view name, Part const& part_of) {
    using Master              = typename Trainer::Master;
    auto const [unit, found]  = find_parameter(trainer.model().units(), name);
    auto const          owned = trainer.strategy().owned(unit);
    std::vector<Master> whole(trainer.model().units()[unit].size);
    auto const          part = part_of(unit);
    std::copy(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(owned.range.begin));
    trainer.strategy().assemble(unit, std::span(whole));
    std::vector<std::size_t> shape{found->rows};
    if (found->dimensions == 2) shape.push_back(found->columns);
    tensor::Array<Master> values(shape);
    auto const            matrix = found->matrix(std::span<Master const>(whole));
    for (std::size_t r = 0; r < found->rows; ++r)
        for (std::size_t c = 0; c < found->columns; ++c) values.data()[r * found->columns + c] = matrix(r, c);
    return values;
}

}  // namespace detail

/// The masters of a parameter, (rows) or (rows, columns). Collective.
template <class Trainer>
auto parameter(Trainer& trainer, std::string_view name) {
    return detail::whole_parameter(trainer, name, [&](std::size_t unit) { return trainer.masters().values(unit); });
}

/// The gradient of a parameter, summed over the batch and the ranks, times the loss scale: between `accumulate` and `apply`. Collective.
template <class Trainer>
auto gradient(Trainer& trainer, std::string_view name) {
    return detail::whole_parameter(trainer, name, [&](std::size_t unit) { return trainer.strategy().owned(unit).gradients; });
}

/// Calls visit(name, expression) for each activation that the last micro-step of this rank saved: the memory itself, nothing copied.
template <class Trainer, class Visit>
void for_each_activation(Trainer const& trainer, Visit&& visit) {
    trainer.model().inspect(trainer.saved(), [&](std::string const& name, auto view) { visit(name, tensor::as_xtensor(view)); });
}

/// A copy of one activation that the last micro-step of this rank saved.
template <class Trainer>
auto activation(Trainer const& trainer, std::string_view name) {
    using Number = precision::accumulator<typename Trainer::Compute>;
    tensor::Array<Number> values;
    bool                  found = false;
    for_each_activation(trainer, [&](std::string const& candidate, auto const& expression) {
        if (candidate != name) return;
        found  = true;
        values = tensor::evaluated_as<Number>(expression);
    });
    if (!found) input_error("there is no activation ", name, " (recomputed blocks keep none)");
    return values;
}

}  // namespace lockstep
