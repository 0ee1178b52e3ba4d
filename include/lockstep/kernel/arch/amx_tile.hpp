#pragma once
// The tile unit (AMX-BF16), instruction by instruction. Eight tiles of 16 rows x 64 bytes each, in one configuration for the whole program.
//
// Written in assembler because the intrinsics of g++ 12 do not tell the compiler that tiles read and write memory, so that it drops the
// stores that fill a buffer before a tile load. Being assembler, these functions need no target attribute and inline anywhere.

#include "lockstep/kernel/arch/avx512_target.hpp"

#if LOCKSTEP_TILES

#include <array>
#include <cstddef>
#include <cstdint>

#include "lockstep/kernel/arch/avx512_tile.hpp"

namespace lockstep::kernel::arch {

inline constexpr std::size_t tile_height = 16;
inline constexpr std::size_t tile_bytes  = 64;  // of a row: 16 floats or 32 bfloat16

/// The memory operand of LDTILECFG. Constant, so that no thread can see it torn.
struct alignas(64) TileConfig {
    std::uint8_t                  palette   = 1;
    std::uint8_t                  start_row = 0;
    std::array<std::uint8_t, 14>  reserved{};
    std::array<std::uint16_t, 16> row_bytes{64, 64, 64, 64, 64, 64, 64, 64};
    std::array<std::uint8_t, 16>  rows{16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
inline constexpr TileConfig tile_config{};

/// The tiles are configured while it lives (some 50 ns). One in every leaf task: tiles belong to the thread, other libraries may have
/// configured them otherwise, and live tiles make a context switch dearer. Nothing inside may run another task.
class TileScope {
public:
    __attribute__((always_inline)) TileScope() noexcept {
        if (!without_tile_unit()) asm volatile("ldtilecfg %0" : : "m"(tile_config));
    }
    __attribute__((always_inline)) ~TileScope() {
        if (!without_tile_unit()) asm volatile("tilerelease" : : : "memory");
    }
    TileScope(TileScope const&)            = delete;
    TileScope& operator=(TileScope const&) = delete;
};

/// tile = 16 rows of 64 bytes, `stride` bytes apart.
template <int Tile>
__attribute__((always_inline)) inline void tile_load(void const* from, std::size_t stride) noexcept {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(Tile) : "memory");
}

/// The same, asking not to displace what the first-level cache holds.
template <int Tile>
__attribute__((always_inline)) inline void tile_load_streaming(void const* from, std::size_t stride) noexcept {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(Tile) : "memory");
}

template <int Tile>
__attribute__((always_inline)) inline void tile_store(void* to, std::size_t stride) noexcept {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(Tile) : "memory");
}

template <int Tile>
__attribute__((always_inline)) inline void tile_zero() noexcept {
    asm volatile("tilezero %%tmm%c0" : : "i"(Tile));
}

/// C[i][j] += sum over k < 32 of A[i][k] * B[k / 2][2 j + k % 2]: C 16x16 floats, A 16x32 bfloat16, B pairs of rows interleaved.
/// Denormals count as zero, the sum is rounded to nearest even.
template <int C, int A, int B>
__attribute__((always_inline)) inline void tile_multiply() noexcept {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}

}  // namespace lockstep::kernel::arch

#endif
