#pragma once
// How weights lie for the kernels in use. Products in tiles read two copies of a weight [M,K] in bfloat16. Masters and their gradients lie
// in tiles of 32 x 32, padded with zeros; both copies keep the places of the tiles and only differ in the order inside a tile.

#include <concepts>
#include <cstddef>
#include <span>

#include "lockstep/kernel/arch/tiles_pack.hpp"
#include "lockstep/kernel/convert.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/state/layout.hpp"

namespace lockstep::kernel {

using precision::bfloat16;

/// Where the masters, the gradients and both copies of a weight have their tiles.
inline constexpr state::Layout packed_layout{32, 32, state::TileOrder::rows, true};
inline constexpr std::size_t   tile_side = 32, tile_elements = tile_side * tile_side;

/// Where one tile's elements lie in the copies for y = x W^T and for dx = dy W.
inline constexpr state::MatrixMap forward_tile    = state::MatrixMap(32, 32, packed_layout).reordered(state::TileOrder::column_pairs);
inline constexpr state::MatrixMap input_grad_tile = state::MatrixMap(32, 32, packed_layout).reordered(state::TileOrder::row_pairs);

/// The layout that the kernels in use read best where weights are of type T.
template <class T>
state::Layout weight_layout() noexcept {
    if (std::same_as<T, bfloat16> && uses_tiles()) return packed_layout;
    return {};
}

/// Writes both copies of part of a parameter in packed_layout, rounded to nearest even: whole tiles of a matrix, or elements of a vector.
template <class Master, class T>
void write_weight_copies(bool matrix, std::span<Master const> masters, std::span<T> forward, std::span<T> input_grad) {
    if (!matrix) {
        convert_block(masters, forward);
        convert_block(masters, input_grad);
        return;
    }
    require(masters.size() % tile_elements == 0, "write_weight_copies: whole tiles of ", tile_elements, " elements expected, found ",
            masters.size(), " elements");
    std::size_t const tiles = masters.size() / tile_elements;
#if LOCKSTEP_TILES
    if constexpr (std::same_as<Master, float> && std::same_as<T, bfloat16>)
        if (uses_tiles()) return arch::pack_master_tiles(masters.data(), tiles, forward.data(), input_grad.data());
#endif
    for (std::size_t tile = 0; tile < tiles; ++tile)
        for (std::size_t r = 0; r < tile_side; ++r)
            for (std::size_t c = 0; c < tile_side; ++c) {
                T const value                                      = static_cast<T>(masters[tile * tile_elements + r * tile_side + c]);
                forward[tile * tile_elements + forward_tile(r, c)] = value;
                input_grad[tile * tile_elements + input_grad_tile(r, c)] = value;
            }
}

}  // namespace lockstep::kernel
