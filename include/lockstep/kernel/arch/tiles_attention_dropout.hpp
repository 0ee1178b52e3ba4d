#pragma once
// Which attention weights of a block dropout keeps: the numbers of `random_bits`, 16 queries side by side.

#include "lockstep/kernel/arch/amx_tile.hpp"

#if LOCKSTEP_TILES

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "lockstep/core/random.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {
namespace detail {

/// Philox4x32-10 of 8 counters, one in the lower half of each 64-bit lane; the upper halves are never read.
LOCKSTEP_AVX512_INLINE void random_lanes(RandomKey key, __m512i block, __m512i (&x)[4]) noexcept {
    x[0]    = block;
    x[1]    = _mm512_srli_epi64(block, 32);
    x[2]    = _mm512_set1_epi64(key.step);
    x[3]    = _mm512_set1_epi64(key.purpose);
    auto k0 = static_cast<std::uint32_t>(key.seed);
    auto k1 = static_cast<std::uint32_t>(key.seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
        __m512i const p0 = _mm512_mul_epu32(x[0], _mm512_set1_epi64(0xD2511F53));
        __m512i const p1 = _mm512_mul_epu32(x[2], _mm512_set1_epi64(0xCD9E8D57));
        x[0]             = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), x[1], _mm512_set1_epi64(k0), 0x96);
        x[1]             = p1;
        x[2]             = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), x[3], _mm512_set1_epi64(k1), 0x96);
        x[3]             = p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/// Bit q of keep[k], q < 16: the random bits of element first + q * stride + k are at least `threshold`.
LOCKSTEP_AVX512_INLINE void kept_weights_of_16(RandomKey key, std::uint32_t threshold, std::uint64_t first, std::uint64_t stride,
                                               std::uint16_t* keep) noexcept {
    __m512i const number   = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    __m512i const step     = _mm512_set1_epi64(static_cast<long long>(stride));
    __m512i const least    = _mm512_set1_epi64(static_cast<long long>(std::uint64_t{threshold} << 32));
    __m512i const start[2] = {_mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(first)), _mm512_mullo_epi64(number, step)),
                              _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(first)),
                                               _mm512_mullo_epi64(_mm512_add_epi64(number, _mm512_set1_epi64(8)), step))};

    std::array<std::uint16_t, 36> words{};  // bit q of words[4 j + w]: word w of block start[q] / 4 + j
    std::array<std::uint32_t, 4>  lanes{};  // with start % 4 = 0 .. 3
    for (std::size_t half = 0; half < 2; ++half) {
        __m512i const skip = _mm512_and_si512(start[half], _mm512_set1_epi64(3));
        for (std::size_t s = 0; s < 4; ++s)
            lanes[s] |= std::uint32_t{_mm512_cmpeq_epi64_mask(skip, _mm512_set1_epi64(static_cast<long long>(s)))} << 8 * half;
    }
    std::size_t const blocks = lanes[0] == 0xFFFF ? 8 : 9;
    for (std::size_t j = 0; j < blocks; ++j) {
        __m512i const at = _mm512_set1_epi64(static_cast<long long>(j));
        __m512i       low[4], high[4];
        random_lanes(key, _mm512_add_epi64(_mm512_srli_epi64(start[0], 2), at), low);
        random_lanes(key, _mm512_add_epi64(_mm512_srli_epi64(start[1], 2), at), high);
        for (std::size_t w = 0; w < 4; ++w) {
            unsigned const a = _mm512_cmpge_epu64_mask(_mm512_slli_epi64(low[w], 32), least);
            unsigned const b = _mm512_cmpge_epu64_mask(_mm512_slli_epi64(high[w], 32), least);
            words[4 * j + w] = static_cast<std::uint16_t>(a | b << 8);
        }
    }
    if (blocks == 8) {
        for (std::size_t k = 0; k < 32; ++k) keep[2 * k] = words[k];
    } else {
        for (std::size_t k = 0; k < 32; ++k) {
            std::uint32_t bits = 0;
            for (std::size_t s = 0; s < 4; ++s) bits |= words[k + s] & lanes[s];
            keep[2 * k] = static_cast<std::uint16_t>(bits);
        }
    }
}

}  // namespace detail

/// keep[2 k + h], k < 32, bit q < 16: whether the weight of key k and query 16 h + q stays. `first` is the element of key 0 and query 0,
/// the queries' elements lie `stride` apart.
inline LOCKSTEP_AVX512_LEAF void kept_weights(RandomKey key, std::uint32_t threshold, std::uint64_t first, std::uint64_t stride,
                                              std::uint16_t* keep) noexcept {
    detail::kept_weights_of_16(key, threshold, first, stride, keep);
    detail::kept_weights_of_16(key, threshold, first + 16 * stride, stride, keep + 1);
}

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
