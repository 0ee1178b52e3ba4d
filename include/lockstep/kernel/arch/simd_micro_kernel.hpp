#pragma once
// The innermost loop of a product: a small block of sums held in registers.

#include <array>
#include <cstddef>

#include "lockstep/kernel/arch/simd_batch.hpp"

namespace lockstep::kernel::arch {

/// Panels of the left operand a and the right operand b: lanes of a panel, floats that a step of it takes.
struct LeftPanel {
    static constexpr std::size_t lanes = width == 16 ? 14 : 6;
    static constexpr std::size_t slots = (lanes + width - 1) / width * width;
};
struct RightPanel {
    static constexpr std::size_t lanes = 2 * width;
    static constexpr std::size_t slots = lanes;
};

/// The block of sums: 14 x 2 (else 6 x 2) batches, two of b and one of a fill the 32 registers of AVX-512 (else 16).
struct MicroTile {
    static constexpr std::size_t rows    = LeftPanel::lanes;
    static constexpr std::size_t columns = RightPanel::lanes;
    static constexpr std::size_t size    = rows * columns;
};

/// c[rows][columns] = (first ? 0 : c) + sum over the steps of a[step][row] * b[step][column], the new sum apart before it is added.
/// Every element is one chain over the steps in order, whatever its place in the tile.
inline void multiply_panels(std::size_t steps, float const* a, float const* b, float* c, bool first) noexcept {
    constexpr std::size_t   rows = MicroTile::rows;
    std::array<Batch, rows> left, right;
#pragma GCC unroll 16
    for (std::size_t i = 0; i < rows; ++i) left[i] = right[i] = Batch(0.0f);
    for (std::size_t step = 0; step < steps; ++step, a += LeftPanel::slots, b += RightPanel::slots) {
        Batch const b0 = load(b);
        Batch const b1 = load(b + width);
#pragma GCC unroll 16
        for (std::size_t i = 0; i < rows; ++i) {
            Batch const scalar(a[i]);
            left[i]  = fused(scalar, b0, left[i]);
            right[i] = fused(scalar, b1, right[i]);
        }
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < rows; ++i) {
        float* const row = c + i * MicroTile::columns;
        store(row, first ? left[i] : load(row) + left[i]);
        store(row + width, first ? right[i] : load(row + width) + right[i]);
    }
}

}  // namespace lockstep::kernel::arch
