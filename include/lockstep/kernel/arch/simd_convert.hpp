#pragma once
// Conversion of one block in batches.

#include <cstddef>

#include "lockstep/kernel/arch/scalar_convert.hpp"
#include "lockstep/kernel/arch/simd_rows.hpp"

namespace lockstep::kernel::arch {

template <simd_element From, simd_element To>
void convert_block(simd, From const* from, To* to, std::size_t count) noexcept {
    for_batches(count, [&](std::size_t i, auto lanes) { store(to + i, load(from + i, lanes), lanes); });
}

}  // namespace lockstep::kernel::arch
