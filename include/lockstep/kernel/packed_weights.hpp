#pragma once
// The copies of a weight [M,K] that the tile unit reads, in bfloat16. Masters and their gradients lie in tiles of 32 x 32, padded with
// zeros
// (`master_layout`); both copies keep the places of the tiles and only differ in the order inside a tile.

#include <cstddef>

#include "lockstep/kernel/arch/amx_pack.hpp"
#include "lockstep/kernel/arch/cpu_features.hpp"
#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/state/layout.hpp"

namespace lockstep::kernel {

using precision::bfloat16;

/// Where the masters, the gradients and both copies of a weight have their tiles.
inline constexpr state::Layout packed_layout{32, 32, false};
inline constexpr std::size_t   tile_side = 32, tile_elements = tile_side * tile_side;

/// Where element (r, c) of a tile lies: right operand of y = x W^T, pairs of columns side by side.
constexpr std::size_t forward_place(std::size_t r, std::size_t c) noexcept { return r / 16 * 512 + c / 2 * 32 + r % 16 * 2 + c % 2; }

/// Where element (r, c) of a tile lies: right operand of dx = dy W, pairs of rows side by side.
constexpr std::size_t backward_place(std::size_t r, std::size_t c) noexcept { return c / 16 * 512 + r / 2 * 32 + c % 16 * 2 + r % 2; }

namespace detail {
/// A copy of a weight [rows, columns]: panels of 32 rows, each with its tiles one after another.
struct PackedCopy {
    bfloat16 const* data = nullptr;
    std::size_t     rows = 0, columns = 0;

    std::size_t tiles_across() const noexcept { return (columns + tile_side - 1) / tile_side; }
};
}  // namespace detail

struct ForwardWeights : detail::PackedCopy {};
struct BackwardWeights : detail::PackedCopy {};

/// Writes both copies of `tiles` consecutive tiles of masters, rounded to nearest even.
inline void write_packed_copies(float const* masters, std::size_t tiles, bfloat16* forward, bfloat16* backward) noexcept {
#if defined(__x86_64__) && defined(__GNUC__)
    if (arch::has_amx()) return arch::pack_master_tiles(masters, tiles, forward, backward);
#endif
    for (std::size_t tile = 0; tile < tiles; ++tile, masters += tile_elements, forward += tile_elements, backward += tile_elements)
        for (std::size_t r = 0; r < tile_side; ++r)
            for (std::size_t c = 0; c < tile_side; ++c)
                forward[forward_place(r, c)] = backward[backward_place(r, c)] = bfloat16(masters[r * tile_side + c]);
}

}  // namespace lockstep::kernel
