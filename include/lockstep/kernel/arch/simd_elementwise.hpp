#pragma once
// Sums of rows in batches.

#include <cstddef>

#include "lockstep/kernel/arch/scalar_elementwise.hpp"
#include "lockstep/kernel/arch/simd_rows.hpp"

namespace lockstep::kernel::arch {

template <simd_element X, simd_element Y>
void add_block(simd, X const* x, Y* y, std::size_t count) noexcept {
    for_batches(count, [&](std::size_t i, auto lanes) { store(y + i, load(y + i, lanes) + load(x + i, lanes), lanes); });
}

}  // namespace lockstep::kernel::arch
