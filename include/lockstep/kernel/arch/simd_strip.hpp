#pragma once
// Small matrix products for attention: the left factor is read by element at any strides, the right one by vectors, so that neither is
// transposed or padded along the sum.

#include <cstddef>

#include "lockstep/kernel/arch/simd_batch.hpp"
#include "lockstep/kernel/arch/simd_transpose.hpp"

namespace lockstep::kernel::arch {

/// Rows of a register tile of `tile_vectors` vectors: accumulators, one row of the right factor and one element of the left fit the
/// registers.
inline constexpr std::size_t tile_vectors = 2;
inline constexpr std::size_t tile_rows    = width == 16 ? 8 : 4;

/// Columns of a strip.
inline constexpr std::size_t strip = tile_vectors * width;

/// The left factor: element (row, step) of the sum lies at data[row * row_stride + step * step_stride].
struct Left {
    float const* data;
    std::size_t  row_stride;
    std::size_t  step_stride;

    Left from(std::size_t row, std::size_t step) const noexcept {
        return {data + row * row_stride + step * step_stride, row_stride, step_stride};
    }
};

namespace detail {

template <std::size_t R, std::size_t V, bool add>
inline void multiply_tile(Left a, float const* b, std::size_t b_stride, std::size_t depth, float* c, std::size_t c_stride) noexcept {
    Batch sum[R][V];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (std::size_t v = 0; v < V; ++v) sum[r][v] = add ? Batch::load_aligned(c + r * c_stride + v * width) : Batch(0.0f);
    }
    float const* element = a.data;
    for (std::size_t k = 0; k < depth; ++k) {
        Batch right[V];
#pragma GCC unroll 4
        for (std::size_t v = 0; v < V; ++v) right[v] = Batch::load_aligned(b + v * width);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < R; ++r) {
            Batch const left(element[r * a.row_stride]);
#pragma GCC unroll 4
            for (std::size_t v = 0; v < V; ++v) sum[r][v] = fused(left, right[v], sum[r][v]);
        }
        element += a.step_stride;
        b += b_stride;
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (std::size_t v = 0; v < V; ++v) sum[r][v].store_aligned(c + r * c_stride + v * width);
    }
}

template <std::size_t R, std::size_t V, bool add>
inline void multiply_rows(Left a, float const* b, std::size_t b_stride, std::size_t rows, std::size_t depth, float* c,
                          std::size_t c_stride) noexcept {
    std::size_t r = 0;
    for (; r + R <= rows; r += R) multiply_tile<R, V, add>(a.from(r, 0), b, b_stride, depth, c + r * c_stride, c_stride);
    if constexpr (R > 1) {
        if (r < rows) multiply_rows<R / 2, V, add>(a.from(r, 0), b, b_stride, rows - r, depth, c + r * c_stride, c_stride);
    }
}

}  // namespace detail

/// c (rows, strip) = a (rows, depth) * b (depth, strip). b and c aligned, their strides a multiple of `width`.
/// A call costs nothing beside the work, and a copy in each place that calls costs compile time: not inlined, like the next.
[[gnu::noinline]] inline void multiply_strip(Left a, float const* b, std::size_t b_stride, std::size_t rows, std::size_t depth, float* c,
                                             std::size_t c_stride) noexcept {
    detail::multiply_rows<tile_rows, tile_vectors, false>(a, b, b_stride, rows, depth, c, c_stride);
}

/// c (rows, strip) += a (rows, depth) * b (depth, strip).
[[gnu::noinline]] inline void add_strip(Left a, float const* b, std::size_t b_stride, std::size_t rows, std::size_t depth, float* c,
                                        std::size_t c_stride) noexcept {
    detail::multiply_rows<tile_rows, tile_vectors, true>(a, b, b_stride, rows, depth, c, c_stride);
}

/// c (rows, columns) += a (rows, depth) * b (depth, columns); columns a multiple of `width`.
[[gnu::noinline]] inline void add_product(Left a, float const* b, std::size_t b_stride, std::size_t rows, std::size_t depth,
                                          std::size_t columns, float* c, std::size_t c_stride) noexcept {
    std::size_t j = 0;
    for (; j + strip <= columns; j += strip) add_strip(a, b + j, b_stride, rows, depth, c + j, c_stride);
    for (; j < columns; j += width) detail::multiply_rows<tile_rows, 1, true>(a, b + j, b_stride, rows, depth, c + j, c_stride);
}

/// to (count) = from (count), widened and scaled.
template <simd_element T>
void widen(T const* from, std::size_t count, float scale, float* to) noexcept {
    std::size_t j = 0;
    for (; j + width <= count; j += width) store(to + j, load(from + j) * Batch(scale));
    if (j < count) store(to + j, load(from + j, count - j) * Batch(scale), count - j);
}

/// to (count) = from (count), rounded.
template <simd_element T>
void narrow(float const* from, std::size_t count, T* to) noexcept {
    std::size_t j = 0;
    for (; j + width <= count; j += width) store(to + j, load(from + j));
    if (j < count) store(to + j, load(from + j, count - j), count - j);
}

/// to (columns, strip) = scale * transpose of from (rows <= strip, columns); missing rows become zero.
template <simd_element T>
void transpose_into_strip(T const* from, std::size_t from_stride, std::size_t rows, std::size_t columns, float scale, float* to) noexcept {
    for (std::size_t i = 0; i < strip; i += width)
        for (std::size_t j = 0; j < columns; j += width) {
            std::size_t const count = columns - j < width ? columns - j : width;
            Square            square;
            for (std::size_t r = 0; r < width; ++r) {
                T const* const row = from + (i + r) * from_stride + j;
                square[r]          = i + r >= rows ? Batch(0.0f) : Batch(scale) * (count == width ? load(row) : load(row, count));
            }
            transpose(square);
            for (std::size_t c = 0; c < count; ++c) store(to + (j + c) * strip + i, square[c]);
        }
}

/// to (rows <= strip, columns) = transpose of from (columns, strip), each row of which is multiplied with scale (strip).
template <simd_element T>
void transpose_from_strip(float const* from, float const* scale, std::size_t rows, std::size_t columns, T* to,
                          std::size_t to_stride) noexcept {
    for (std::size_t i = 0; i < rows; i += width)
        for (std::size_t j = 0; j < columns; j += width) {
            std::size_t const count = columns - j < width ? columns - j : width;
            Square            square;
            for (std::size_t c = 0; c < width; ++c)
                square[c] = c < count ? load(scale + i) * load(from + (j + c) * strip + i) : Batch(0.0f);
            transpose(square);
            for (std::size_t r = 0; r < width && i + r < rows; ++r) {
                T* const row = to + (i + r) * to_stride + j;
                count == width ? store(row, square[r]) : store(row, square[r], count);
            }
        }
}

}  // namespace lockstep::kernel::arch
