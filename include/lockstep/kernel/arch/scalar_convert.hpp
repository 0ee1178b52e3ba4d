#pragma once
// Conversion of one block, element by element.

#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "lockstep/kernel/arch/tags.hpp"
#include "lockstep/precision/mixed.hpp"

namespace lockstep::kernel::arch {

/// Rounds once to nearest even, also from double to a 16-bit type: the float in between is rounded to odd, which keeps the half that
/// decides.
template <class To, class From>
To rounded(From value) noexcept {
    if constexpr (std::same_as<From, double> && sizeof(To) == 2) {
        auto near = static_cast<float>(value);
        if (static_cast<double>(near) != value && std::isfinite(near) && (std::bit_cast<std::uint32_t>(near) & 1u) == 0)
            near = std::nextafter(near, static_cast<double>(near) < value ? HUGE_VALF : -HUGE_VALF);
        return To(near);
    } else if constexpr (sizeof(From) == 2) {
        return static_cast<To>(static_cast<float>(value));
    } else {
        return static_cast<To>(value);
    }
}

template <class From, class To>
void convert_block(scalar, From const* from, To* to, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) to[i] = rounded<To>(from[i]);
}

}  // namespace lockstep::kernel::arch
