#pragma once
// GELU (tanh form) and SwiGLU of one row in batches. The formulas are those of scalar_activation.hpp.

#include <cstddef>

#include "lockstep/kernel/arch/scalar_activation.hpp"
#include "lockstep/kernel/arch/simd_rows.hpp"

namespace lockstep::kernel::arch {

template <simd_element X, simd_element Y>
void gelu_block(simd, X const* x, Y* y, std::size_t count) noexcept {
    Batch const slope(static_cast<float>(gelu_slope)), cubic(static_cast<float>(gelu_cubic));
    for_batches(count, [&](std::size_t i, auto lanes) {
        Batch const v = load(x + i, lanes);
        store(y + i, v * sigmoid(v * fused(cubic * v, v, slope)), lanes);
    });
}

template <simd_element X, simd_element DY, simd_element DX>
void gelu_backward_block(simd, X const* x, DY const* dy, DX* dx, std::size_t count) noexcept {
    Batch const slope(static_cast<float>(gelu_slope)), cubic(static_cast<float>(gelu_cubic)), one(1.0f);
    for_batches(count, [&](std::size_t i, auto lanes) {
        Batch const v = load(x + i, lanes);
        Batch const s = sigmoid(v * fused(cubic * v, v, slope));
        Batch const t = fused(v * s * (one - s), fused(cubic * v * Batch(3.0f), v, slope), s);
        store(dx + i, load(dy + i, lanes) * t, lanes);
    });
}

template <simd_element X, simd_element Y>
void swiglu_block(simd, X const* gate, X const* up, Y* y, std::size_t count) noexcept {
    for_batches(count, [&](std::size_t i, auto lanes) {
        Batch const g = load(gate + i, lanes);
        store(y + i, g * sigmoid(g) * load(up + i, lanes), lanes);
    });
}

template <simd_element X, simd_element DY, simd_element DX>
void swiglu_backward_block(simd, X const* gate, X const* up, DY const* dy, DX* dgate, DX* dup, std::size_t count) noexcept {
    Batch const one(1.0f);
    for_batches(count, [&](std::size_t i, auto lanes) {
        Batch const g = load(gate + i, lanes), u = load(up + i, lanes), d = load(dy + i, lanes);
        Batch const s = sigmoid(g);
        store(dgate + i, d * u * s * fused(g, one - s, one), lanes);
        store(dup + i, d * g * s, lanes);
    });
}

}  // namespace lockstep::kernel::arch
