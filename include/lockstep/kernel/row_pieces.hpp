#pragma once
// Parallel loops of elementwise kernels: rows, cut into pieces where they are long.

#include <algorithm>
#include <cstddef>

#include "lockstep/runtime/parallel_for.hpp"

namespace lockstep::kernel {

/// Elements of a piece: two operands of floats fit a first-level cache.
inline constexpr std::size_t piece_size = 4096;

/// Calls body(row, begin, end) for pieces of columns of each row. `cost` estimates one element in elementary operations.
template <class Body>
void for_each_piece(std::size_t rows, std::size_t columns, std::size_t cost, Body const& body) {
    std::size_t const pieces = (columns + piece_size - 1) / piece_size;
    runtime::parallel_for(rows * pieces, std::min(columns, piece_size) * cost, [&](std::size_t block) {
        std::size_t const begin = block % pieces * piece_size;
        body(block / pieces, begin, std::min(begin + piece_size, columns));
    });
}

}  // namespace lockstep::kernel
