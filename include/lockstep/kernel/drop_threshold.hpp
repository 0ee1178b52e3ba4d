#pragma once
// Which random bits drop an element.

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lockstep::kernel {

/// `unit_interval(bits) < probability` exactly where bits are below it; 0, which drops nothing, for probabilities below 2^-33.
inline std::uint32_t drop_threshold(float probability) noexcept {  // in [0, 1)
    return static_cast<std::uint32_t>(std::max(std::ceil(double{probability} * 0x1p32 - 0.5), 0.0));
}

}  // namespace lockstep::kernel
