#pragma once
// What the tile unit could do at most: multiplications between tiles, without a load or a store.

#include <cstddef>

#include "lockstep/kernel/arch/amx_tile.hpp"
#include "lockstep/kernel/arch/cpu_features.hpp"

namespace lockstep::kernel {

/// A loop of TDPBF16PS into four accumulators. Only to be run where arch::has_amx().
class TileProbe {
public:
    static constexpr std::size_t chains = 4;
    static constexpr std::size_t rounds = 40000;
    static constexpr double      flop   = 2.0 * chains * rounds * 16 * 16 * 32;

    /// Runs once, about 1 ms. The value returned is one number of the result.
    static float run() {
        float result = 0;
#if LOCKSTEP_TILES
        alignas(64) float sums[256];
        {
            arch::TileScope const tiles;
            clear_tiles();
            for (std::size_t round = 0; round < rounds; ++round) {
                arch::tile_multiply<0, 4, 6>();
                arch::tile_multiply<1, 4, 7>();
                arch::tile_multiply<2, 5, 6>();
                arch::tile_multiply<3, 5, 7>();
            }
            arch::tile_store<0>(sums, arch::tile_bytes);
        }
        result = sums[0];
#endif
        return result;
    }

private:
#if LOCKSTEP_TILES
    static void clear_tiles() noexcept {
        arch::tile_zero<0>(), arch::tile_zero<1>(), arch::tile_zero<2>(), arch::tile_zero<3>();
        arch::tile_zero<4>(), arch::tile_zero<5>(), arch::tile_zero<6>(), arch::tile_zero<7>();
    }
#endif
};

}  // namespace lockstep::kernel
