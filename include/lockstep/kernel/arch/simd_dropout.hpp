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
#if defined(__AVX512F__)
struct Counters {
    static constexpr std::size_t lanes = 8;
    __m512i                      value;

    static Counters load(std::uint64_t const* from) noexcept { return {_mm512_loadu_si512(from)}; }
    void            store(std::uint64_t* to) const noexcept { _mm512_storeu_si512(to, value); }
    Counters        times(std::uint32_t factor) const noexcept { return {_mm512_maskz_mul_epu32(0xFF, value, _mm512_set1_epi64(factor))}; }
    Counters        upper() const noexcept { return {_mm512_maskz_srli_epi64(0xFF, value, 32)}; }
    Counters        operator^(Counters other) const noexcept { return {_mm512_xor_si512(value, other.value)}; }
    Counters        operator^(std::uint32_t key) const noexcept { return {_mm512_xor_si512(value, _mm512_set1_epi64(key))}; }
};
#elif defined(__AVX2__)
struct Counters {
    static constexpr std::size_t lanes = 4;
    __m256i                      value;

    static Counters load(std::uint64_t const* from) noexcept { return {_mm256_loadu_si256(reinterpret_cast<__m256i const*>(from))}; }
    void            store(std::uint64_t* to) const noexcept { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value); }
    Counters        times(std::uint32_t factor) const noexcept { return {_mm256_mul_epu32(value, _mm256_set1_epi64x(factor))}; }
    Counters        upper() const noexcept { return {_mm256_srli_epi64(value, 32)}; }
    Counters        operator^(Counters other) const noexcept { return {_mm256_xor_si256(value, other.value)}; }
    Counters        operator^(std::uint32_t key) const noexcept { return {_mm256_xor_si256(value, _mm256_set1_epi64x(key))}; }
};
#else
struct Counters {
    static constexpr std::size_t lanes = 1;
    std::uint64_t                value;

    static Counters load(std::uint64_t const* from) noexcept { return {*from}; }
    void            store(std::uint64_t* to) const noexcept { *to = value; }
    Counters        times(std::uint32_t factor) const noexcept { return {(value & 0xFFFFFFFFu) * factor}; }
    Counters        upper() const noexcept { return {value >> 32}; }
    Counters        operator^(Counters other) const noexcept { return {value ^ other.value}; }
    Counters        operator^(std::uint32_t key) const noexcept { return {value ^ key}; }
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
    for (std::size_t v = 0; v < vectors; ++v)
        for (std::size_t w = 0; w < 4; ++w) x[v][w].store(c[w].data() + v * Counters::lanes);
    for (std::size_t b = 0; b < random_blocks; ++b)
        for (std::size_t w = 0; w < 4; ++w) words[4 * b + w] = static_cast<std::uint32_t>(c[w][b]);
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
