#pragma once
// Sums of rows, element by element.

#include <cstddef>

#include "lockstep/kernel/arch/scalar_convert.hpp"

namespace lockstep::kernel::arch {

/// y += x; the sum is in the accumulator of y, rounded once.
template <class X, class Y>
void add_block(scalar, X const* x, Y* y, std::size_t count) noexcept {
    using A = precision::accumulator<Y>;
    for (std::size_t i = 0; i < count; ++i) y[i] = rounded<Y>(static_cast<A>(y[i]) + rounded<A>(x[i]));
}

}  // namespace lockstep::kernel::arch
