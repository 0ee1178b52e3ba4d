#pragma once
// Declaration: modules say which parameters they have, a unit's table grows, offsets follow.

#include <string>

#include "lockstep/core/assertion.hpp"
#include "lockstep/state/unit.hpp"

namespace lockstep::nn {

/// Where a parameter stands in its unit's table.
using ParameterIndex = std::size_t;

/// Fills the table of one unit. Matrices get the layout given here, vectors the identity. Each starts at a whole cache line where the
/// matrices have tiles of whole cache lines.
class Declaration {
public:
    explicit Declaration(state::Unit& unit, state::Layout layout = {}) : unit_(unit), layout_(layout) {
        unit.paired = layout.paired_weights;
    }

    /// A matrix [rows, columns]; weight decay applies to it by default.
    ParameterIndex matrix(std::string name, std::size_t rows, std::size_t columns, state::Initial initial) {
        return add({.name       = std::move(name),
                    .rows       = rows,
                    .columns    = columns,
                    .dimensions = 2,
                    .map        = {rows, columns, layout_},
                    .decays     = true,
                    .initial    = initial});
    }

    /// A vector of n elements, without weight decay.
    ParameterIndex vector(std::string name, std::size_t n, state::Initial initial) {
        return add({.name = std::move(name), .rows = n, .map = {n, 1, vector_layout()}, .initial = initial});
    }

    /// A second use of a parameter that another module declared: their gradients add up.
    ParameterIndex share(ParameterIndex index) {
        ++unit_.parameters[index].uses;
        return index;
    }

    /// A number for each place that draws random numbers, distinct in the unit.
    std::uint32_t random_site() {
        require(sites_ < most_places, "nn: a unit draws random numbers in at most ", most_places, " places, the unit ", unit_.name,
                " in more");
        return sites_++;
    }

private:
    ParameterIndex add(state::Parameter parameter) {
        for (state::Parameter const& other : unit_.parameters)
            require(other.name != parameter.name, "nn: the unit ", unit_.name, " declares the parameter ", parameter.name, " twice");
        require(unit_.parameters.size() < most_places, "nn: a unit has at most ", most_places, " parameters, the unit ", unit_.name,
                " more");
        parameter.offset  = unit_.size;
        parameter.purpose = static_cast<std::uint32_t>(unit_.parameters.size());
        unit_.size += parameter.size();
        unit_.parameters.push_back(std::move(parameter));
        return unit_.parameters.size() - 1;
    }

    /// In order, padded to as many elements as a row of a tile has.
    state::Layout vector_layout() const noexcept { return {.panel_rows = layout_.paired_weights ? layout_.tile_columns : 1}; }

    static constexpr std::uint32_t most_places = 256;  // the keys of random numbers hold the unit's number above 8 bits

    state::Unit&  unit_;
    state::Layout layout_;
    std::uint32_t sites_ = 0;
};

}  // namespace lockstep::nn
