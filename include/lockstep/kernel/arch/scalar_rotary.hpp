#pragma once
// Rotates one head, element by element.

#include <cstddef>

#include "lockstep/kernel/arch/tags.hpp"

namespace lockstep::kernel::arch {

/// Elements j and j + half, j < half, turn by the angle of cosine[j] and sine[j].
template <class T, class A>
void rotate_halves(scalar, T* head, A const* cosine, A const* sine, std::size_t half) {
    for (std::size_t j = 0; j < half; ++j) {
        A const x      = static_cast<A>(head[j]);
        A const y      = static_cast<A>(head[j + half]);
        head[j]        = static_cast<T>(x * cosine[j] - y * sine[j]);
        head[j + half] = static_cast<T>(x * sine[j] + y * cosine[j]);
    }
}

}  // namespace lockstep::kernel::arch
