#pragma once
// Random words in bulk, and dropout of one block, element by element.

#include <array>
#include <cstddef>
#include <cstdint>

#include "lockstep/core/random.hpp"
#include "lockstep/kernel/arch/scalar_convert.hpp"

namespace lockstep::kernel::arch {

/// Counter blocks that are computed together, and the words they give.
inline constexpr std::size_t random_blocks = 16;
using RandomWords                          = std::array<std::uint32_t, 4 * random_blocks>;

/// Words of the elements 4*first_block ...
inline void random_words(scalar, RandomKey key, std::uint64_t first_block, RandomWords& words) noexcept {
    for (std::size_t b = 0; b < random_blocks; ++b) {
        auto const block = random_block(key, first_block + b);
        for (std::size_t w = 0; w < 4; ++w) words[4 * b + w] = block[w];
    }
}

/// x *= factor where the word reaches the threshold, else 0.
template <class T>
void drop_block(scalar, std::uint32_t const* words, std::uint32_t threshold, precision::accumulator<T> factor, T* x,
                std::size_t count) noexcept {
    using A = precision::accumulator<T>;
    for (std::size_t i = 0; i < count; ++i) x[i] = words[i] >= threshold ? rounded<T>(static_cast<A>(x[i]) * factor) : T{};
}

}  // namespace lockstep::kernel::arch
