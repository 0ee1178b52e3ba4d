#pragma once
// A product by blocks: operands are packed to floats panel by panel, a micro-kernel multiplies panels, a sink takes the finished sums.
// After Goto and van de Geijn, Anatomy of high-performance matrix multiplication, ACM TOMS 34(3), 2008.

#include <algorithm>
#include <cstddef>

#include "lockstep/kernel/arch/simd_micro_kernel.hpp"
#include "lockstep/kernel/arch/simd_pack.hpp"
#include "lockstep/kernel/gemm_tiling.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/runtime/scratch.hpp"

namespace lockstep::kernel::arch {

/// Steps whose sum stays in registers: a panel of each operand then fits the first-level cache. A constant, so that every
/// element of a product is the same sum of the same chains wherever it is computed.
inline constexpr std::size_t steps_together = 256;

/// The largest tile: its packed operands and its sums fill about two thirds of a second-level cache of 2 MiB.
inline constexpr TileLimits tile_limits{MicroTile::rows, MicroTile::columns, 364 / MicroTile::rows* MicroTile::rows, 384};

/// An operand of a product whatever its type: `pack` writes a range of it into panels.
struct AnyOperand {
    void const* operand;
    void (*pack)(void const* operand, PackRange range, float* panels) noexcept;
};

template <class Panel, class Operand>
AnyOperand any_operand(Operand const& operand) noexcept {
    return {&operand, [](void const* any, PackRange range, float* panels) noexcept {
                arch::pack<Panel>(*static_cast<Operand const*>(any), range, panels);
            }};
}

/// Rows and columns of a micro tile that are part of the product.
struct TilePlace {
    std::size_t row, rows, column, columns;
};

/// What takes the sums, whatever its type: `take` gets a micro tile of them, `expect` comes before.
struct AnySink {
    void const* sink;
    void (*expect)(void const* sink, TilePlace place) noexcept;
    void (*take)(void const* sink, TilePlace place, float const* sums) noexcept;
};

template <class Sink>
AnySink any_sink(Sink const& sink) noexcept {
    return {&sink,
            [](void const* any, TilePlace at) noexcept {
                for (std::size_t r = 0; r < at.rows; ++r) static_cast<Sink const*>(any)->expect(at.row + r, at.column);
            },
            [](void const* any, TilePlace at, float const* sums) noexcept {
                for (std::size_t r = 0; r < at.rows; ++r)
                    (*static_cast<Sink const*>(any))(at.row + r, at.column, sums + r * MicroTile::columns, at.columns);
            }};
}

/// The product of any operands: compiled once, since it asks for their types once a panel only.
inline void multiply_any(ProductSizes sizes, AnyOperand a, AnyOperand b, AnySink sink) {
    Tiling const      tiling  = tile_product(sizes, tile_limits, std::max(enough_tiles, 2 * runtime::threads_here()));
    std::size_t const longest = std::min(sizes.steps, steps_together);
    std::size_t const down = tiling.rows / MicroTile::rows, across = tiling.columns / MicroTile::columns;  // micro tiles of a tile
    bool const        single = sizes.steps <= steps_together;                                              // sums need not wait in memory

    runtime::parallel_for(tiling.tiles(), tiling.rows * tiling.columns * (sizes.steps + 8) / (2 * width), [&](std::size_t tile) {
        std::size_t const     row0 = tile / tiling.across * tiling.rows, column0 = tile % tiling.across * tiling.columns;
        std::size_t const     rows = std::min(tiling.rows, sizes.rows - row0), columns = std::min(tiling.columns, sizes.columns - column0);
        runtime::ScratchFrame frame;
        float* const          left  = frame.take<float>(down * LeftPanel::slots * longest).data();
        float* const          right = frame.take<float>(across * RightPanel::slots * longest).data();
        float* const          block = frame.take<float>(single ? MicroTile::size : down * across * MicroTile::size).data();

        for (std::size_t step = 0; step == 0 || step < sizes.steps; step += steps_together) {
            std::size_t const steps = std::min(steps_together, sizes.steps - step);
            bool const        last  = step + steps == sizes.steps;
            a.pack(a.operand, {row0, rows, step, steps}, left);
            b.pack(b.operand, {column0, columns, step, steps}, right);
            for (std::size_t j = 0, column = 0; column < columns; ++j, column += MicroTile::columns)
                for (std::size_t i = 0, row = 0; row < rows; ++i, row += MicroTile::rows) {
                    TilePlace const at{row0 + row, std::min(MicroTile::rows, rows - row), column0 + column,
                                       std::min(MicroTile::columns, columns - column)};
                    if (last) sink.expect(sink.sink, at);
                    float* const sums = single ? block : block + (j * down + i) * MicroTile::size;
                    multiply_panels(steps, left + i * LeftPanel::slots * steps, right + j * RightPanel::slots * steps, sums, step == 0);
                    if (last) sink.take(sink.sink, at, sums);
                }
        }
    });
}

/// Hands every element of c(row, column) = sum over steps of a(row, step) b(column, step) to the sink once.
/// `sink(row, column, sums, count)` gets `count` neighbours of a row; `sink.expect(row, column)` came before. Tiles run in parallel.
template <class A, class B, class Sink>
void multiply(ProductSizes sizes, A const& a, B const& b, Sink const& sink) {
    multiply_any(sizes, any_operand<LeftPanel>(a), any_operand<RightPanel>(b), any_sink(sink));
}

}  // namespace lockstep::kernel::arch
