#pragma once
// Which window of the tokens a sample is: a function of (seed, global sample index) and nothing else.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::data {

enum class Order { shuffled, sequential };

/// Windows of T + 1 tokens at a distance of T: the last token of one is the first input of the next.
inline std::uint64_t windows(std::size_t tokens, std::size_t length, std::string_view name) {
    if (length == 0) input_error("sequence length: expected at least 1, found 0");
    if (tokens == 0 || tokens - 1 < length)
        input_error("data ", name, ": expected at least ", length, " + 1 tokens for one sequence and its labels, found ", tokens);
    return (tokens - 1) / length;
}

/// Key of the sampler's random numbers.
inline constexpr std::uint32_t sampler_purpose = purpose::sample_order;

/// Position i of a pseudo-random order of 0 .. size-1: a Feistel network over the next power of 4, walked until it falls inside
/// (Black and Rogaway: Ciphers with arbitrary finite domains, 2002). No table, so any position costs the same.
constexpr std::uint64_t shuffled_position(std::uint64_t i, std::uint64_t size, std::uint64_t seed, std::uint32_t epoch) noexcept {
    if (size <= 1) return 0;
    RandomKey const     key{seed, sampler_purpose, epoch};
    int const           half = (static_cast<int>(std::bit_width(size - 1)) + 1) / 2;  // bits, at most 32
    std::uint64_t const mask = (std::uint64_t{1} << half) - 1;
    do {
        std::uint64_t left = i >> half, right = i & mask;
        for (std::uint64_t round = 0; round < 8; ++round) {
            std::uint64_t const mixed = left ^ (random_bits(key, round << 32 | right) & mask);
            left                      = right;
            right                     = mixed;
        }
        i = left << half | right;
    } while (i >= size);
    return i;
}

/// Sample i is in epoch i / W at position i % W. Its state is two integers: the seed and the next sample.
struct Sampler {
    std::uint64_t windows = 1;  // W, at least 1
    Order         order   = Order::shuffled;
    std::uint64_t seed    = 1337;

    constexpr std::uint64_t window(std::uint64_t sample) const noexcept {
        std::uint64_t const position = sample % windows;
        if (order == Order::sequential) return position;
        return shuffled_position(position, windows, seed, static_cast<std::uint32_t>(sample / windows));
    }
};

}  // namespace lockstep::data
