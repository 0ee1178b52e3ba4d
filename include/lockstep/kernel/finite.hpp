#pragma once
// Is every element finite?

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>
#include <type_traits>

#include "lockstep/kernel/bits.hpp"
#include "lockstep/runtime/parallel_for.hpp"

namespace lockstep::kernel {

/// False if an element is infinite or NaN.
template <class T>
bool all_finite(std::span<T> values) {
    constexpr std::size_t block = 16384;
    std::atomic<bool>     finite{true};
    runtime::parallel_for((values.size() + block - 1) / block, block, [&](std::size_t b) {
        if (!finite.load(std::memory_order_relaxed)) return;
        constexpr auto exponent = exponent_bits<std::remove_const_t<T>>();
        unsigned       found    = 0;
        for (T const& value : values.subspan(b * block, std::min(block, values.size() - b * block)))
            found |= (bits_of(value) & exponent) == exponent ? 1u : 0u;
        if (found != 0) finite.store(false, std::memory_order_relaxed);
    });
    return finite.load();
}

}  // namespace lockstep::kernel
