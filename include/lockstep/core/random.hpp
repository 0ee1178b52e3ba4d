#pragma once
// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, SC 2011).
// A number is a function of (seed, purpose, step, element), so it depends on no rank, layout, thread or order of calls.

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace lockstep {

/// What a stream of random numbers is for. Streams with different keys are independent.
struct RandomKey {
    std::uint64_t seed    = 0;
    std::uint32_t purpose = 0;  // site: a parameter, a dropout, a rounding, the sampler
    std::uint32_t step    = 0;  // version of the parameters, or epoch
};

/// Purposes by kind. Initial values use the number of the parameter itself: its unit above bit 8, its place in the unit below.
namespace purpose {
inline constexpr std::uint32_t optimizer_state = 0x20000000u;  // | number of the parameter: stochastic rounding
inline constexpr std::uint32_t activations     = 0x40000000u;  // | unit above bit 8 | place in the unit: dropout
inline constexpr std::uint32_t generation      = 0x5A000000u;  // tokens of a sample text
inline constexpr std::uint32_t sample_order    = 0xDA7A0001u;
}  // namespace purpose

/// Four words of the stream: elements 4*block .. 4*block+3.
constexpr std::array<std::uint32_t, 4> random_block(RandomKey key, std::uint64_t block) noexcept {
    std::array<std::uint32_t, 4> c{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), key.step, key.purpose};
    auto                         k0 = static_cast<std::uint32_t>(key.seed);
    auto                         k1 = static_cast<std::uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
        std::uint64_t const p0 = std::uint64_t{0xD2511F53u} * c[0];
        std::uint64_t const p1 = std::uint64_t{0xCD9E8D57u} * c[2];
        c                      = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
                                  static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

/// 32 random bits of one element.
constexpr std::uint32_t random_bits(RandomKey key, std::uint64_t element) noexcept { return random_block(key, element / 4)[element % 4]; }

/// Uniform in (0, 1), never 0 or 1.
constexpr double unit_interval(std::uint32_t bits) noexcept { return (bits + 0.5) * 0x1p-32; }

/// Standard normals of elements 4*block .. 4*block+3, by Box and Muller: two elements share two words.
inline std::array<double, 4> normal_block(RandomKey key, std::uint64_t block) {
    auto const            words = random_block(key, block);
    std::array<double, 4> normals;
    for (std::size_t pair = 0; pair < 4; pair += 2) {
        double const radius = std::sqrt(-2.0 * std::log(unit_interval(words[pair])));
        double const angle  = 2.0 * std::numbers::pi * unit_interval(words[pair + 1]);
        normals[pair]       = radius * std::cos(angle);
        normals[pair + 1]   = radius * std::sin(angle);
    }
    return normals;
}

/// Standard normal of one element.
inline double random_normal(RandomKey key, std::uint64_t element) { return normal_block(key, element / 4)[element % 4]; }

}  // namespace lockstep
