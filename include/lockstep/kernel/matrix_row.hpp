#pragma once
// Rows of a matrix whose layout is known at run time only: a row is a few pieces, each with elements at a constant distance.

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "lockstep/state/layout.hpp"

namespace lockstep::kernel {

/// Calls body(pointer, distance, first column, number of columns) for the pieces of columns begin..end of one row.
template <class T, class Body>
void for_each_row_piece(state::Matrix<T> matrix, std::size_t row, std::size_t begin, std::size_t end, Body const& body) {
    std::size_t const run      = matrix.map.run();
    std::size_t const distance = run > 1 && matrix.columns() > 1 ? matrix.map(row, 1) - matrix.map(row, 0) : 1;
    while (begin < end) {
        std::size_t const next = std::min(end, (begin / run + 1) * run);
        body(matrix.data + matrix.map(row, begin), distance, begin, next - begin);
        begin = next;
    }
}

/// One row of a matrix in column pairs, contiguous: so many elements as its columns padded to whole tiles. Where a pair lies is computed
/// once a row: to divide for each, or for each tile, would take longer than all the rest.
template <class T>
void copy_paired_row(state::Matrix<T const> matrix, std::size_t row, T* to) {
    std::size_t const tile = matrix.map.tile_columns(), next_tile = matrix.map(0, tile), next_pair = matrix.map(0, 2);
    T const*          first = matrix.data + matrix.map(row, 0);
    for (std::size_t begin = 0; begin < matrix.columns(); begin += tile, first += next_tile) {
        T const* from = first;
        for (std::size_t c = 0; c < tile; c += 2, from += next_pair) std::memcpy(static_cast<void*>(to + begin + c), from, 2 * sizeof(T));
    }
}

}  // namespace lockstep::kernel
