#pragma once
// How far the rows of an activation lie apart.

#include <cstddef>

#include "lockstep/core/config.hpp"

namespace lockstep::tensor {

/// Elements from a row of `columns` elements of `element` bytes to the next. Long rows are an odd number of cache lines apart: at a power
/// of two, the rows of a tile would share a few sets of the first-level cache.
constexpr std::size_t row_stride(std::size_t columns, std::size_t element) noexcept {
    constexpr std::size_t long_row = 16;  // lines
    std::size_t const     lines    = (columns * element + alignment - 1) / alignment;
    return lines < long_row ? columns : (lines | 1) * alignment / element;
}

}  // namespace lockstep::tensor
