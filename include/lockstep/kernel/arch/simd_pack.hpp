#pragma once
// Packing: a panel of an operand of a product is copied into consecutive floats, so that the micro-kernel reads both operands in order.
// A product c(i,j) = sum over k of a(i,k) b(k,j) has two operands; lanes of a are its rows i, lanes of b its columns j; k counts steps.

#include <algorithm>
#include <array>
#include <cstddef>

#include "lockstep/kernel/arch/simd_transpose.hpp"
#include "lockstep/state/layout.hpp"

namespace lockstep::kernel::arch {

/// An operand whose steps are contiguous: element (lane, step) at data[lane * stride + step].
template <simd_element T>
struct AlongSteps {
    T const*    data;
    std::size_t stride;
};

/// An operand whose lanes are contiguous: element (lane, step) at data[step * stride + lane].
template <simd_element T>
struct AlongLanes {
    T const*    data;
    std::size_t stride;
};

/// A matrix of any layout. Its rows are the lanes, or its columns are.
template <simd_element T, bool RowsAreLanes>
struct Mapped {
    state::Matrix<T const> matrix;
};

/// The part of an operand that a tile needs now.
struct PackRange {
    std::size_t lane, lanes;  // first, count
    std::size_t step, steps;
};

// A panel holds `Panel::lanes` lanes as [steps][Panel::slots]; slots is a multiple of `width`. Panels follow each other.
// What slots without a lane hold is finite or not, but only reaches sums that nobody reads.

template <class Panel, class T>
void pack(AlongLanes<T> operand, PackRange range, float* panels) noexcept {
    for (std::size_t step = 0; step < range.steps; ++step) {
        T const* const from = operand.data + (range.step + step) * operand.stride + range.lane;
        float*         to   = panels + step * Panel::slots;
        for (std::size_t lane = 0; lane < range.lanes; lane += Panel::lanes, to += range.steps * Panel::slots)
            for (std::size_t slot = 0; slot < Panel::slots; slot += width) {
                std::size_t const at = lane + slot;
                if (at + width <= range.lanes)
                    store(to + slot, load(from + at));
                else
                    store(to + slot, at < range.lanes ? load(from + at, range.lanes - at) : Batch(0.0f));
            }
    }
}

template <class Panel, class T>
void pack(AlongSteps<T> operand, PackRange range, float* panels) noexcept {
    std::size_t const whole = range.steps / width * width;
    for (std::size_t lane = 0; lane < range.lanes; lane += Panel::lanes, panels += range.steps * Panel::slots)
        for (std::size_t slot = 0; slot < Panel::slots; slot += width) {
            std::array<T const*, width> rows;
            for (std::size_t i = 0; i < width; ++i)
                rows[i] = operand.data + (range.lane + std::min(lane + slot + i, range.lanes - 1)) * operand.stride + range.step;
            float* to = panels + slot;
            Square square;
            for (std::size_t step = 0; step < whole; step += width, to += width * Panel::slots) {
                for (std::size_t i = 0; i < width; ++i) square[i] = load(rows[i] + step);
                transpose(square);
                for (std::size_t i = 0; i < width; ++i) store(to + i * Panel::slots, square[i]);
            }
            if (std::size_t const rest = range.steps - whole; rest > 0) {
                for (std::size_t i = 0; i < width; ++i) square[i] = load(rows[i] + whole, rest);
                transpose(square);
                for (std::size_t i = 0; i < rest; ++i) store(to + i * Panel::slots, square[i]);
            }
        }
}

template <class Panel, class T, bool RowsAreLanes>
void pack(Mapped<T, RowsAreLanes> operand, PackRange range, float* panels) noexcept {
    for (std::size_t lane = 0; lane < range.lanes; lane += Panel::lanes)
        for (std::size_t step = range.step; step < range.step + range.steps; ++step, panels += Panel::slots)
            for (std::size_t slot = 0; slot < Panel::slots; ++slot) {
                std::size_t const at = range.lane + std::min(lane + slot, range.lanes - 1);
                panels[slot]         = static_cast<float>(RowsAreLanes ? operand.matrix(at, step) : operand.matrix(step, at));
            }
}

}  // namespace lockstep::kernel::arch
