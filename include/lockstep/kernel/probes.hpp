#pragma once
// Loops of multiply-adds between registers, without a load or a store: what each unit could do at most.

#include <array>
#include <cstddef>

#include "lockstep/kernel/arch/amx_tile.hpp"
#include "lockstep/kernel/arch/simd_batch.hpp"

#if LOCKSTEP_TILES
#include <immintrin.h>
#endif

namespace lockstep::kernel {

/// A loop of fp32 multiply-adds that loads and stores nothing: 24 independent chains where there are 32 registers, else 12.
class FmaProbe {
public:
    static constexpr std::size_t chains = arch::width == 16 ? 24 : 12;
    static constexpr std::size_t rounds = 4096;
    static constexpr double      flop   = 2.0 * chains * rounds * arch::width;

    /// Runs once, some 20 to 50 us. The value returned keeps the compiler from dropping the work.
    static float run() {
        arch::Batch const               factor(0.999f), term(0.001f);
        std::array<arch::Batch, chains> sums;
        for (std::size_t i = 0; i < chains; ++i) sums[i] = arch::Batch(static_cast<float>(i));  // else equal chains were one
        for (std::size_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
            for (std::size_t i = 0; i < chains; ++i) sums[i] = arch::fused(sums[i], factor, term);
        }
        float result = 0;
        for (arch::Batch const& sum : sums) result += arch::horizontal_sum(sum);
        return result;
    }
};

/// A loop of VDPBF16PS: 24 independent chains. Only to be run where arch::has_avx512_bfloat16().
class PairProbe {
public:
    static constexpr std::size_t chains = 24;
    static constexpr std::size_t rounds = 4096;
    static constexpr double      flop   = 2.0 * chains * rounds * 32;

    /// Runs once, some 20 to 50 us. The value returned keeps the compiler from dropping the work.
#if LOCKSTEP_TILES
    LOCKSTEP_AVX512_LEAF static float run() noexcept {
        __m512 sums[chains];
        auto   factor = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3C003C00));  // pairs of 2^-7
#pragma GCC unroll 24
        for (std::size_t i = 0; i < chains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));  // else equal chains were one
        for (std::size_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
            for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, factor, factor);
        }
        __m512 total = sums[0];
        for (std::size_t i = 1; i < chains; ++i) total = _mm512_add_ps(total, sums[i]);
        return _mm512_cvtss_f32(total);
    }
#else
    static float run() noexcept { return 0; }
#endif
};

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
            asm volatile("ldtilecfg %0" : : "m"(arch::tile_config));  // whatever stands in for the tile unit: see arch::TileScope
            clear_tiles();
            for (std::size_t round = 0; round < rounds; ++round) {
                arch::tile_multiply<0, 4, 6>();
                arch::tile_multiply<1, 4, 7>();
                arch::tile_multiply<2, 5, 6>();
                arch::tile_multiply<3, 5, 7>();
            }
            arch::tile_store<0>(sums, arch::tile_bytes);
            asm volatile("tilerelease" : : : "memory");
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
