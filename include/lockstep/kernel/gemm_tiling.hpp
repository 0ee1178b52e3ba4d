#pragma once
// How the output of a product is cut into tasks: each element of it is the same sum however that is.

#include <algorithm>
#include <cstddef>

namespace lockstep::kernel {

/// Sizes of c(rows, columns) = sum over steps.
struct ProductSizes {
    std::size_t rows = 0, columns = 0, steps = 0;
};

/// The smallest unit of output that a micro-kernel computes, and the largest tile whose packed operands stay in the second-level cache.
struct TileLimits {
    std::size_t rows = 1, columns = 1;            // of the micro-kernel
    std::size_t most_rows = 1, most_columns = 1;  // multiples of them
};

/// Equal tiles, multiples of the micro-kernel, that cover the output.
struct Tiling {
    std::size_t rows = 1, columns = 1;  // of a tile
    std::size_t down = 0, across = 0;   // tiles

    std::size_t tiles() const noexcept { return down * across; }
};

/// Tiles are made smaller until there are enough of them, twice as many as threads at least, but not below this many multiplications (some
/// 30 us in fp32).
inline constexpr std::size_t least_tile_work = std::size_t{1} << 21;
inline constexpr std::size_t enough_tiles    = 12;

inline Tiling tile_product(ProductSizes sizes, TileLimits limits, std::size_t enough = enough_tiles) noexcept {
    auto const parts = [](std::size_t extent, std::size_t size) { return std::max<std::size_t>(1, (extent + size - 1) / size); };
    auto const cut   = [&](std::size_t extent, std::size_t count, std::size_t unit) { return parts(extent, count * unit) * unit; };

    std::size_t down = parts(sizes.rows, limits.most_rows), across = parts(sizes.columns, limits.most_columns);
    Tiling      tiling;
    for (;;) {
        tiling      = {cut(sizes.rows, down, limits.rows), cut(sizes.columns, across, limits.columns), 0, 0};
        tiling.down = parts(sizes.rows, tiling.rows), tiling.across = parts(sizes.columns, tiling.columns);
        bool const rows_can = tiling.rows > limits.rows, columns_can = tiling.columns > limits.columns;
        bool const small = tiling.rows * tiling.columns * sizes.steps < 2 * least_tile_work;
        if (tiling.tiles() >= enough || small || (!rows_can && !columns_can)) return tiling;
        rows_can && (tiling.rows > tiling.columns || !columns_can) ? ++down : ++across;
    }
}

}  // namespace lockstep::kernel
