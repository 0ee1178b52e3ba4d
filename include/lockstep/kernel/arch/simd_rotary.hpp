#pragma once
// Rotates one head in batches.

#include <cstddef>

#include "lockstep/kernel/arch/scalar_rotary.hpp"
#include "lockstep/kernel/arch/simd_batch.hpp"

namespace lockstep::kernel::arch {

template <simd_element T>
void rotate_halves(simd, T* head, float const* cosine, float const* sine, std::size_t half) {
    auto const turn = [&](std::size_t j, auto... count) {
        Batch const x = load(head + j, count...);
        Batch const y = load(head + j + half, count...);
        Batch const c = load(cosine + j, count...);
        Batch const s = load(sine + j, count...);
        store(head + j, x * c - y * s, count...);
        store(head + j + half, x * s + y * c, count...);
    };
    std::size_t j = 0;
    for (; j + width <= half; j += width) turn(j);
    if (j < half) turn(j, half - j);
}

}  // namespace lockstep::kernel::arch
