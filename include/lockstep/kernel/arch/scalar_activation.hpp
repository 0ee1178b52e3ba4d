#pragma once
// GELU (tanh form) and SwiGLU of one row, element by element.

#include <cmath>
#include <cstddef>

#include "lockstep/kernel/arch/scalar_convert.hpp"

namespace lockstep::kernel::arch {

/// GELU in its tanh form is x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): 2u = x (slope + cubic x^2).
inline constexpr double gelu_slope = 1.5957691216057308;
inline constexpr double gelu_cubic = gelu_slope * 0.044715;

template <class A>
A sigmoid(scalar, A x) noexcept {
    return A(1) / (A(1) + std::exp(-x));
}

template <class X, class Y>
void gelu_block(scalar tag, X const* x, Y* y, std::size_t count) noexcept {
    using A = precision::accumulator<X>;
    for (std::size_t i = 0; i < count; ++i) {
        A const v = static_cast<A>(x[i]);
        y[i]      = rounded<Y>(v * sigmoid(tag, v * (A(gelu_slope) + A(gelu_cubic) * v * v)));
    }
}

template <class X, class DY, class DX>
void gelu_backward_block(scalar tag, X const* x, DY const* dy, DX* dx, std::size_t count) noexcept {
    using A = precision::accumulator<X>;
    for (std::size_t i = 0; i < count; ++i) {
        A const v     = static_cast<A>(x[i]);
        A const s     = sigmoid(tag, v * (A(gelu_slope) + A(gelu_cubic) * v * v));
        A const slope = s + v * s * (A(1) - s) * (A(gelu_slope) + A(3 * gelu_cubic) * v * v);
        dx[i]         = rounded<DX>(static_cast<A>(dy[i]) * slope);
    }
}

/// y = gate * sigmoid(gate) * up.
template <class X, class Y>
void swiglu_block(scalar tag, X const* gate, X const* up, Y* y, std::size_t count) noexcept {
    using A = precision::accumulator<X>;
    for (std::size_t i = 0; i < count; ++i) {
        A const g = static_cast<A>(gate[i]);
        y[i]      = rounded<Y>(g * sigmoid(tag, g) * static_cast<A>(up[i]));
    }
}

template <class X, class DY, class DX>
void swiglu_backward_block(scalar tag, X const* gate, X const* up, DY const* dy, DX* dgate, DX* dup, std::size_t count) noexcept {
    using A = precision::accumulator<X>;
    for (std::size_t i = 0; i < count; ++i) {
        A const g = static_cast<A>(gate[i]), u = static_cast<A>(up[i]), d = static_cast<A>(dy[i]);
        A const s = sigmoid(tag, g);
        dgate[i]  = rounded<DX>(d * u * s * (A(1) + g * (A(1) - s)));
        dup[i]    = rounded<DX>(d * g * s);
    }
}

}  // namespace lockstep::kernel::arch
