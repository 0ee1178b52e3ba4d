#pragma once
// Conversion between element types, rounding to nearest even. NaN stays NaN, infinities stay.

#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "lockstep/kernel/arch/simd_convert.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/kernel/shape.hpp"

namespace lockstep::kernel {

/// to[i] = from[i] on the calling thread.
template <class From, precision::compute_element To>
void convert_block(std::span<From> from, std::span<To> to) {
    require_extent("convert", "elements to write", to.size(), from.size());
    if constexpr (std::same_as<std::remove_const_t<From>, To>) {
        if (!from.empty()) std::memmove(to.data(), from.data(), from.size_bytes());
    } else {
        with_arch([&](auto tag) { arch::convert_block(tag, from.data(), to.data(), from.size()); });
    }
}

}  // namespace lockstep::kernel
