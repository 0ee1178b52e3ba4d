#pragma once
// Random words in bulk.

#include "lockstep/kernel/arch/simd_dropout.hpp"
#include "lockstep/kernel/isa.hpp"

namespace lockstep::kernel {

using arch::RandomWords;

/// words[i] = random_bits(key, 4 * first_block + i), the same on every instruction set.
inline void random_words(RandomKey key, std::uint64_t first_block, RandomWords& words) noexcept {
    with_arch([&](auto tag) { arch::random_words(tag, key, first_block, words); });
}

}  // namespace lockstep::kernel
