#pragma once
// A unit is what is gathered and released together; its table of parameters carves one flat buffer.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/range.hpp"
#include "lockstep/state/layout.hpp"

namespace lockstep::state {

/// How a parameter starts: normal with this mean and standard deviation.
struct Initial {
    float mean      = 0;
    float deviation = 0;
};

/// One named tensor of a unit: a vector (columns 1) or a matrix [rows, columns].
struct Parameter {
    std::string   name;
    std::size_t   rows       = 0;
    std::size_t   columns    = 1;
    int           dimensions = 1;
    MatrixMap     map;         // where element (row, column) lies inside the range
    std::size_t   offset = 0;  // first element in the unit's buffers
    bool          decays = false;
    Initial       initial;
    std::uint32_t purpose = 0;  // key of its random numbers, distinct over the model
    std::uint32_t uses    = 1;  // how often a backward pass contributes to its gradient

    std::size_t size() const noexcept { return map.size(); }  // padding included
    std::size_t elements() const noexcept { return rows * columns; }
    Range       range() const noexcept { return {offset, offset + size()}; }

    /// The parameter inside a buffer of its unit.
    template <class T>
    Matrix<T> matrix(std::span<T> unit) const {
        return {unit.data() + offset, map};
    }
    /// The same for a vector, whose elements lie in order.
    template <class T>
    std::span<T> vector(std::span<T> unit) const {
        return unit.subspan(offset, rows);
    }
};

struct Unit {
    std::string            name;
    std::vector<Parameter> parameters;
    std::size_t            size = 0;      // elements of each of its buffers, padding included
    bool                   root = false;  // needed from the first layer to the last: stays gathered during a micro-step

    bool paired            = false;  // compute weights are two copies (Layout::paired_weights): one for forward, one for input gradients
    bool backward_computes = false;  // backward runs parts of forward again, so it reads both

    std::size_t copies() const noexcept { return paired ? 2 : 1; }  // of the compute weights
};

/// Logical elements of units: padding does not count.
inline std::size_t element_count(std::span<Unit const> units) {
    std::size_t count = 0;
    for (Unit const& unit : units)
        for (Parameter const& parameter : unit.parameters) count += parameter.elements();
    return count;
}

}  // namespace lockstep::state
