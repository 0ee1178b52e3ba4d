#pragma once
// a * b + c in one spelling, so that the vector body and the remainder of a loop agree in bits.

#include <cmath>
#include <concepts>

namespace lockstep {

/// a * b + c, rounded once where the target multiplies and adds in one instruction, else twice. Formulas whose bits must not
/// depend on how a compiler cuts a loop use it wherever a sum has a product in it.
template <std::floating_point T>
inline T multiply_add(T a, T b, T c) noexcept {
#if defined(__FMA__) || defined(__aarch64__)
    return std::fma(a, b, c);
#else
    return a * b + c;
#endif
}

}  // namespace lockstep
