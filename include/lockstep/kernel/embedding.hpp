#pragma once
// Embedding of tokens and of their positions, forward beside backward.
// Legend: N tokens of the batch, T tokens of a sequence, C channels, V vocabulary. The matrices may have any layout.
// Shapes that do not fit are errors; a token outside the vocabulary is an input error that names it and its position.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "lockstep/kernel/arch/simd_convert.hpp"
#include "lockstep/kernel/arch/simd_elementwise.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/kernel/matrix_row.hpp"
#include "lockstep/kernel/shape.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/runtime/scratch.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel {

using state::Matrix;
using tensor::View;

namespace detail {

template <class W, class P>
void require_tokens(char const* kernel, std::span<std::int32_t const> tokens, Matrix<W> table, Matrix<P> positions, std::size_t sequence,
                    std::size_t rows, std::size_t columns) {
    require_extent(kernel, "tokens", tokens.size(), rows);
    require_extent(kernel, "columns of the table", table.columns(), columns);
    if (positions.data != nullptr) {
        require_extent(kernel, "columns of the positions", positions.columns(), columns);
        require(rows == 0 || (sequence > 0 && std::min(sequence, rows) <= positions.rows()), kernel, ": a sequence must have 1 to ",
                positions.rows(), " positions, found ", sequence);
    }
    for (std::size_t n = 0; n < rows; ++n)
        if (tokens[n] < 0 || static_cast<std::size_t>(tokens[n]) >= table.rows())
            input_error(kernel, ": token ", tokens[n], " at position ", n, " is outside the vocabulary of ", table.rows());
}

/// sum += a row of the matrix.
template <class Tag, class W, class A>
void add_row(Tag tag, Matrix<W> matrix, std::size_t row, A* sum) {
    if (matrix.map.order() == state::TileOrder::column_pairs) {
        using T                    = std::remove_const_t<W>;
        std::size_t const     tile = matrix.map.tile_columns();
        runtime::ScratchFrame frame;
        std::span<T> const    copy = frame.take<T>((matrix.columns() + tile - 1) / tile * tile);
        copy_paired_row<T>(matrix, row, copy.data());
        return arch::add_block(tag, copy.data(), sum, matrix.columns());
    }
    for_each_row_piece(matrix, row, 0, matrix.columns(), [&](auto* from, std::size_t distance, std::size_t column, std::size_t count) {
        if (distance == 1)
            arch::add_block(tag, from, sum + column, count);
        else
            for (std::size_t c = 0; c < count; ++c) sum[column + c] += static_cast<A>(from[c * distance]);
    });
}

/// Columns begin..end of row `row_of(n)` of the matrix += those of dy[n], for each n in order. Where the columns lie is computed once: rows
/// are all alike.
template <class Tag, class DY, class G, class RowOf>
void add_to_rows(Tag tag, View<DY, 2> dy, Matrix<G> matrix, std::size_t begin, std::size_t end, RowOf const& row_of) {
    for_each_row_piece(matrix, 0, begin, end, [&](G* first, std::size_t distance, std::size_t column, std::size_t count) {
        for (std::size_t n = 0; n < dy.extent(0); ++n) {
            DY const* const from = dy.row(n).data() + column;
            G* const        to   = first + matrix.map(row_of(n), 0);
            if (distance == 1)
                arch::add_block(tag, from, to, count);
            else
                for (std::size_t c = 0; c < count; ++c) to[c * distance] += static_cast<G>(from[c]);
        }
    });
}

}  // namespace detail

/// y[n] = table[tokens[n]] + positions[n % sequence], summed in the accumulator and rounded once. Positions without data: none are added.
template <class W, class P, precision::compute_element Y>
void embedding_forward(std::span<std::int32_t const> tokens,     // (N)
                       Matrix<W>                     table,      // (V,C)
                       Matrix<P>                     positions,  // (>=T,C)
                       std::size_t                   sequence,   // T
                       View<Y, 2>                    y) {                           // (N,C)
    std::size_t const rows = y.extent(0), columns = y.extent(1);
    detail::require_tokens("embedding_forward", tokens, table, positions, sequence, rows, columns);
    with_arch([&](auto tag) {
        runtime::parallel_for(rows, 4 * columns, [&](std::size_t n) {
            using A = precision::accumulator<std::remove_const_t<W>>;
            runtime::ScratchFrame frame;
            std::span<A> const    sum = frame.take<A>(columns);
            std::ranges::fill(sum, A(0));
            detail::add_row(tag, table, static_cast<std::size_t>(tokens[n]), sum.data());
            if (positions.data != nullptr) detail::add_row(tag, positions, n % sequence, sum.data());
            arch::convert_block(tag, sum.data(), y.row(n).data(), columns);
        });
    });
}

/// dtable[tokens[n]] += dy[n], dpositions[n % sequence] += dy[n], each element in the order of the tokens: threads split the columns.
template <class DY, precision::master_element G>
void embedding_backward(std::span<std::int32_t const> tokens,      // (N)
                        View<DY, 2>                   dy,          // (N,C)
                        Matrix<G>                     dtable,      // (V,C)
                        Matrix<G>                     dpositions,  // (>=T,C)
                        std::size_t                   sequence) {                    // T
    constexpr std::size_t wide = 64;
    std::size_t const     rows = dy.extent(0), columns = dy.extent(1);
    detail::require_tokens("embedding_backward", tokens, dtable, dpositions, sequence, rows, columns);
    with_arch([&](auto tag) {
        runtime::parallel_for((columns + wide - 1) / wide, 2 * rows * wide, [&](std::size_t block) {
            std::size_t const begin = block * wide, end = std::min(columns, begin + wide);
            detail::add_to_rows(tag, dy, dtable, begin, end, [&](std::size_t n) { return static_cast<std::size_t>(tokens[n]); });
            if (dpositions.data != nullptr)
                detail::add_to_rows(tag, dy, dpositions, begin, end, [&](std::size_t n) { return n % sequence; });
        });
    });
}

}  // namespace lockstep::kernel
