#pragma once
// The products of a linear layer on top of the blocked product: which operand lies how, and what becomes of the sums.

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/kernel/arch/simd_multiply.hpp"
#include "lockstep/kernel/arch/tags.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel::arch {

using state::Matrix;
using tensor::View;

template <class T>
concept simd_readable = simd_element<std::remove_const_t<T>>;

/// Asks for the cache lines of one row of a micro tile, to be written soon.
template <class T>
void expect_row(T* row) noexcept {
    for (std::size_t i = 0; i < MicroTile::columns; i += alignment / sizeof(T)) __builtin_prefetch(row + i, 1);
}

/// Overwrites rows of a matrix with sums, plus a bias for every column.
template <simd_element Y, simd_element B>
struct OverwriteSink {
    Y*          data;
    std::size_t stride;
    B const*    bias;  // null: none

    void expect(std::size_t row, std::size_t column) const noexcept { expect_row(data + row * stride + column); }

    void operator()(std::size_t row, std::size_t column, float const* sums, std::size_t count) const noexcept {
        Y* const    to = data + row * stride + column;
        std::size_t i  = 0;
        for (; i + width <= count; i += width) store(to + i, bias != nullptr ? load(sums + i) + load(bias + column + i) : load(sums + i));
        if (std::size_t const rest = count - i; rest > 0)
            store(to + i, bias != nullptr ? load(sums + i) + load(bias + column + i, rest) : load(sums + i), rest);
    }
};

/// Adds sums to a matrix of any layout.
struct AddSink {
    Matrix<float> matrix;

    void expect(std::size_t row, std::size_t column) const noexcept {
        if (matrix.map.row_major()) expect_row(matrix.data + row * matrix.columns() + column);
    }

    void operator()(std::size_t row, std::size_t column, float const* sums, std::size_t count) const noexcept {
        if (!matrix.map.row_major()) {
            for (std::size_t i = 0; i < count; ++i) matrix(row, column + i) += sums[i];
            return;
        }
        float* const to = matrix.data + row * matrix.columns() + column;
        std::size_t  i  = 0;
        for (; i + width <= count; i += width) store(to + i, load(to + i) + load(sums + i));
        for (; i < count; ++i) to[i] += sums[i];
    }
};

template <simd_readable X, simd_readable W, simd_readable B, simd_element Y>
void gemm_forward(simd, View<X, 2> x, Matrix<W> w, View<B, 1> bias, View<Y, 2> y) {
    using Element = std::remove_const_t<W>;
    ProductSizes const                             sizes{x.extent(0), w.rows(), w.columns()};
    AlongSteps<std::remove_const_t<X>> const       rows{x.data(), x.stride(0)};
    OverwriteSink<Y, std::remove_const_t<B>> const sink{y.data(), y.stride(0), bias.data()};
    if (w.map.row_major())
        multiply(sizes, rows, AlongSteps<Element>{w.data, w.columns()}, sink);
    else
        multiply(sizes, rows, Mapped<Element, true>{w}, sink);
}

template <simd_readable DY, simd_readable W, simd_element DX>
void gemm_input_grad(simd, View<DY, 2> dy, Matrix<W> w, View<DX, 2> dx) {
    using Element = std::remove_const_t<W>;
    ProductSizes const                        sizes{dy.extent(0), w.columns(), w.rows()};
    AlongSteps<std::remove_const_t<DY>> const rows{dy.data(), dy.stride(0)};
    OverwriteSink<DX, float> const            sink{dx.data(), dx.stride(0), nullptr};
    if (w.map.row_major())
        multiply(sizes, rows, AlongLanes<Element>{w.data, w.columns()}, sink);
    else
        multiply(sizes, rows, Mapped<Element, false>{w}, sink);
}

template <simd_readable DY, simd_readable X>
void gemm_weight_grad(simd, View<DY, 2> dy, View<X, 2> x, Matrix<float> dw) {
    ProductSizes const sizes{dw.rows(), dw.columns(), dy.extent(0)};
    if (sizes.steps == 0) return;
    multiply(sizes, AlongLanes<std::remove_const_t<DY>>{dy.data(), dy.stride(0)}, AlongLanes<std::remove_const_t<X>>{x.data(), x.stride(0)},
             AddSink{dw});
}

/// Sums of 128 rows each, in order, then added in order.
template <simd_readable DY>
void bias_grad(simd, View<DY, 2> dy, View<float, 1> db) {
    constexpr std::size_t batches = 4, columns = batches * width, rows_together = 128;
    std::size_t const     rows = dy.extent(0), all = dy.extent(1);
    runtime::parallel_for((all + columns - 1) / columns, rows * batches, [&](std::size_t block) {
        std::size_t const          first = block * columns, count = std::min(columns, all - first);
        std::array<Batch, batches> total;
        total.fill(Batch(0.0f));
        for (std::size_t begin = 0; begin < rows; begin += rows_together) {
            std::array<Batch, batches> sum;
            sum.fill(Batch(0.0f));
            for (std::size_t row = begin; row < std::min(rows, begin + rows_together); ++row) {
                DY* const from = dy.data() + row * dy.stride(0) + first;
                for (std::size_t i = 0; i < batches; ++i) {
                    if ((i + 1) * width <= count)
                        sum[i] += load(from + i * width);
                    else if (i * width < count)
                        sum[i] += load(from + i * width, count - i * width);
                }
            }
            for (std::size_t i = 0; i < batches; ++i) total[i] += sum[i];
        }
        std::array<float, columns> sums;
        for (std::size_t i = 0; i < batches; ++i) store(sums.data() + i * width, total[i]);
        for (std::size_t i = 0; i < count; ++i) db(first + i) += sums[i];
    });
}

}  // namespace lockstep::kernel::arch
