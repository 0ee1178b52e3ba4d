#pragma once
// Blocks of 32 x 32 sums by VDPBF16PS, for machines that multiply bfloat16 in vectors but have no tile unit. The kernels on tiles take them
// in place of tiles 0 to 3: operands lie the same way, pairs of bfloat16 along the sum, so that packed weights, fused ends of products,
// the head and attention are the same code on both. Denormals count as zero here as there; pairs are added in another order.

#include "lockstep/kernel/arch/avx512_target.hpp"

#if LOCKSTEP_TILES

#include <immintrin.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {

namespace detail {
inline constinit std::atomic<bool> tile_unit_replaced{false};
}

/// True where kernels on tiles shall use vectors in place of the tile unit: see kernel::use.
__attribute__((always_inline)) inline bool without_tile_unit() noexcept {
    return detail::tile_unit_replaced.load(std::memory_order_relaxed);
}

/// Rows of the left operand: pairs of bfloat16 one after another, 16 a step.
struct LeftRows {
    std::byte const* data;
    std::size_t      row, step;  // bytes
};

/// 32 columns of the right operand: in two tiles of 16 columns, 16 rows of pairs each.
struct RightTiles {
    std::byte const* left;
    std::byte const* right;
    std::size_t      step;  // bytes
};

namespace detail {

/// Of 32 lanes the first `count`, or all.
LOCKSTEP_AVX512_INLINE std::uint32_t first_lanes(std::size_t count) noexcept {
    return _bzhi_u32(~0u, static_cast<unsigned>(count < 32 ? count : 32));
}

/// to (8, 32) = (start or 0) + a b, each element one chain over the pairs of all steps in order. Rows of sums are 32 floats apart.
LOCKSTEP_AVX512_INLINE void multiply_eight_rows(LeftRows a, RightTiles b, std::size_t steps, float const* start, float* to) noexcept {
    constexpr std::size_t rows = 8, pairs = 16;
    __m512                low[rows], high[rows];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r) {
        low[r]  = start != nullptr ? _mm512_load_ps(start + 32 * r) : _mm512_setzero_ps();
        high[r] = start != nullptr ? _mm512_load_ps(start + 32 * r + 16) : _mm512_setzero_ps();
    }
    for (std::size_t step = 0; step < steps; ++step, a.data += a.step, b.left += b.step, b.right += b.step)
        for (std::size_t pair = 0; pair < pairs; ++pair) {
            auto const b_low  = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b.left + 64 * pair));
            auto const b_high = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b.right + 64 * pair));
#pragma GCC unroll 8
            for (std::size_t r = 0; r < rows; ++r) {
                int words;
                std::memcpy(&words, a.data + r * a.row + 4 * pair, sizeof(words));
                auto const left = reinterpret_cast<__m512bh>(_mm512_set1_epi32(words));
                low[r]          = _mm512_dpbf16_ps(low[r], left, b_low);
                high[r]         = _mm512_dpbf16_ps(high[r], left, b_high);
            }
        }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r) {
        _mm512_store_ps(to + 32 * r, low[r]);
        _mm512_store_ps(to + 32 * r + 16, high[r]);
    }
}

}  // namespace detail

/// to (16, 32) = (start or 0) + a b. `start` may be `to`.
LOCKSTEP_AVX512_LEAF inline void multiply_vectors(LeftRows a, RightTiles b, std::size_t steps, float const* start, float* to) noexcept {
    for (std::size_t row = 0; row < 16; row += 8) {
        detail::multiply_eight_rows(a, b, steps, start, to);
        a.data += 8 * a.row;
        to += 8 * 32;
        if (start != nullptr) start += 8 * 32;
    }
}

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
