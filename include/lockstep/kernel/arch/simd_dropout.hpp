#pragma once
// Random words in bulk, and dropout of one block in batches.

#include <array>
#include <cstddef>
#include <cstdint>

#include "lockstep/kernel/arch/scalar_dropout.hpp"
#include "lockstep/kernel/arch/simd_rows.hpp"

namespace lockstep::kernel::arch {

namespace detail {

/// Counters side by side, one in the lower half of each 64-bit lane; the upper halves are never read.
/// store_blocks: the four words of each counter one after another.
#if defined(__AVX512F__)
struct Counters {
    static constexpr std::size_t lanes = 8;
    __m512i                      value;

    static Counters load(std::uint64_t const* from) noexcept { return {_mm512_loadu_si512(from)}; }
    Counters        times(std::uint32_t factor) const noexcept { return {_mm512_maskz_mul_epu32(0xFF, value, _mm512_set1_epi64(factor))}; }
    Counters        upper() const noexcept { return {_mm512_maskz_srli_epi64(0xFF, value, 32)}; }
    Counters        operator^(Counters other) const noexcept { return {_mm512_xor_si512(value, other.value)}; }
    Counters        operator^(std::uint32_t key) const noexcept { return {_mm512_xor_si512(value, _mm512_set1_epi64(key))}; }

    static void store_blocks(std::array<Counters, 4> const& x, std::uint32_t* to) noexcept {
        __m512i const first  = _mm512_mask_shuffle_epi32(x[0].value, 0xAAAA, x[1].value, _MM_PERM_CCAA);
        __m512i const second = _mm512_mask_shuffle_epi32(x[2].value, 0xAAAA, x[3].value, _MM_PERM_CCAA);
        _mm512_storeu_si512(to, _mm512_permutex2var_epi64(first, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), second));
        _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi64(first, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), second));
    }
};
#elif defined(__AVX2__)
struct Counters {
    static constexpr std::size_t lanes = 4;
    __m256i                      value;

    static Counters load(std::uint64_t const* from) noexcept { return {_mm256_loadu_si256(reinterpret_cast<__m256i const*>(from))}; }
    Counters        times(std::uint32_t factor) const noexcept { return {_mm256_mul_epu32(value, _mm256_set1_epi64x(factor))}; }
    Counters        upper() const noexcept { return {_mm256_srli_epi64(value, 32)}; }
    Counters        operator^(Counters other) const noexcept { return {_mm256_xor_si256(value, other.value)}; }
    Counters        operator^(std::uint32_t key) const noexcept { return {_mm256_xor_si256(value, _mm256_set1_epi64x(key))}; }

    static void store_blocks(std::array<Counters, 4> const& x, std::uint32_t* to) noexcept {
        __m256i const first  = _mm256_blend_epi32(x[0].value, _mm256_slli_epi64(x[1].value, 32), 0xAA);
        __m256i const second = _mm256_blend_epi32(x[2].value, _mm256_slli_epi64(x[3].value, 32), 0xAA);
        __m256i const even = _mm256_unpacklo_epi64(first, second), odd = _mm256_unpackhi_epi64(first, second);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute2x128_si256(even, odd, 0x20));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), _mm256_permute2x128_si256(even, odd, 0x31));
    }
};
#else
struct Counters {
    static constexpr std::size_t lanes = 1;
    std::uint64_t                value;

    static Counters load(std::uint64_t const* from) noexcept { return {*from}; }
    Counters        times(std::uint32_t factor) const noexcept { return {(value & 0xFFFFFFFFu) * factor}; }
    Counters        upper() const noexcept { return {value >> 32}; }
    Counters        operator^(Counters other) const noexcept { return {value ^ other.value}; }
    Counters        operator^(std::uint32_t key) const noexcept { return {value ^ key}; }

    static void store_blocks(std::array<Counters, 4> const& x, std::uint32_t* to) noexcept {
        for (std::size_t w = 0; w < 4; ++w) to[w] = static_cast<std::uint32_t>(x[w].value);
    }
};
#endif

}  // namespace detail

/// The words of `random_block` for all counters of a block.
inline void random_words(simd, RandomKey key, std::uint64_t first_block, RandomWords& words) noexcept {
    using detail::Counters;
    constexpr std::size_t vectors = random_blocks / Counters::lanes;
    using Lanes                   = std::array<std::uint64_t, random_blocks>;
    std::array<Lanes, 4> c;
    for (std::size_t b = 0; b < random_blocks; ++b) {
        c[0][b] = first_block + b;
        c[1][b] = (first_block + b) >> 32;
        c[2][b] = key.step;
        c[3][b] = key.purpose;
    }
    std::array<std::array<Counters, 4>, vectors> x;
    for (std::size_t v = 0; v < vectors; ++v)
        for (std::size_t w = 0; w < 4; ++w) x[v][w] = Counters::load(c[w].data() + v * Counters::lanes);
    auto k0 = static_cast<std::uint32_t>(key.seed);
    auto k1 = static_cast<std::uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
        for (auto& [x0, x1, x2, x3] : x) {
            Counters const p0 = x0.times(0xD2511F53u);
            Counters const p1 = x2.times(0xCD9E8D57u);
            x0                = p1.upper() ^ x1 ^ k0;
            x1                = p1;
            x2                = p0.upper() ^ x3 ^ k1;
            x3                = p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (std::size_t v = 0; v < vectors; ++v) Counters::store_blocks(x[v], words.data() + v * 4 * Counters::lanes);
}

template <simd_element T>
void drop_block(simd, std::uint32_t const* words, std::uint32_t threshold, float factor, T* x, std::size_t count) noexcept {
    alignas(64) std::array<float, 4 * random_blocks + width> factors;
    for (std::size_t i = 0; i < count; ++i) factors[i] = words[i] >= threshold ? factor : 0.0f;
    for_batches(count, [&](std::size_t i, auto lanes) {
        Batch const f    = load(factors.data() + i);
        Batch const kept = load(x + i, lanes) * f;
        store(x + i, xsimd::select(f == Batch(0.0f), Batch(0.0f), kept), lanes);  // what is dropped is 0, even NaN
    });
}

}  // namespace lockstep::kernel::arch
