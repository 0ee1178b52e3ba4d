#pragma once
// One row of LayerNorm and RMSNorm, forward and backward, in batches. The formulas are those of scalar_normalize.hpp.

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>

#include "lockstep/kernel/arch/scalar_normalize.hpp"
#include "lockstep/kernel/arch/simd_rows.hpp"

namespace lockstep::kernel::arch {

/// As it is after having been stored as T.
template <simd_element T>
Batch stored_as(Batch value) noexcept {
    if constexpr (std::same_as<T, float>) {
        return value;
    } else {
        alignas(64) std::array<T, width> lanes;
        store(lanes.data(), value);
        return load(lanes.data());
    }
}

template <simd_element X, simd_element W, simd_element Y>
RowStatistics<float> layernorm_row(simd, X const* x, W const* gamma, W const* beta, double eps, Y* y, std::size_t columns) noexcept {
    auto const  count  = static_cast<float>(columns);
    float const mean   = sum_batches(columns, [&](std::size_t c, auto lanes) { return load(x + c, lanes); }) / count;
    float const square = sum_batches(columns, [&](std::size_t c, auto lanes) {
        Batch const centred = load(x + c, lanes, mean) - Batch(mean);
        return centred * centred;
    });
    float const rstd   = 1.0f / std::sqrt(square / count + static_cast<float>(eps));
    for_batches(columns, [&](std::size_t c, auto lanes) {
        Batch const xhat = (load(x + c, lanes) - Batch(mean)) * Batch(rstd);
        store(y + c, fused(xhat, load(gamma + c, lanes), load(beta + c, lanes)), lanes);
    });
    return {mean, rstd};
}

template <simd_element DY, simd_element X, simd_element W, simd_element DX>
void layernorm_backward_row(simd, DY const* dy, X const* x, W const* gamma, RowStatistics<float> row, DX* dx, float* dgamma, float* dbeta,
                            std::size_t columns) noexcept {
    Batch const mean(row.mean), rstd(row.rstd);
    Batch       sums(0.0f), products(0.0f);
    for_batches(columns, [&](std::size_t c, auto lanes) {
        Batch const d    = load(dy + c, lanes);
        Batch const xhat = (load(x + c, lanes) - mean) * rstd;
        Batch const g    = d * load(gamma + c, lanes);  // 0 beyond the row
        sums += g;
        products = fused(g, xhat, products);
        store(dgamma + c, fused(d, xhat, load(dgamma + c, lanes)), lanes);
        store(dbeta + c, d + load(dbeta + c, lanes), lanes);
    });
    Batch const sum(horizontal_sum(sums) / static_cast<float>(columns));
    Batch const product(horizontal_sum(products) / static_cast<float>(columns));
    for_batches(columns, [&](std::size_t c, auto lanes) {
        Batch const xhat = (load(x + c, lanes) - mean) * rstd;
        Batch const g    = load(dy + c, lanes) * load(gamma + c, lanes);
        store(dx + c, rstd * (g - sum - xhat * product), lanes);
    });
}

template <simd_element X, simd_element W, simd_element Y>
float rmsnorm_row(simd, X const* x, W const* gamma, double eps, Y* y, std::size_t columns) noexcept {
    float const square = sum_batches(columns, [&](std::size_t c, auto lanes) {
        Batch const value = load(x + c, lanes);
        return value * value;
    });
    float const rstd   = 1.0f / std::sqrt(square / static_cast<float>(columns) + static_cast<float>(eps));
    for_batches(columns, [&](std::size_t c, auto lanes) {
        Batch const xhat = stored_as<X>(load(x + c, lanes) * Batch(rstd));
        store(y + c, xhat * load(gamma + c, lanes), lanes);
    });
    return rstd;
}

template <simd_element DY, simd_element X, simd_element W, simd_element DX>
void rmsnorm_backward_row(simd, DY const* dy, X const* x, W const* gamma, float rstd, DX* dx, float* dgamma, std::size_t columns) noexcept {
    Batch products(0.0f);
    for_batches(columns, [&](std::size_t c, auto lanes) {
        Batch const d    = load(dy + c, lanes);
        Batch const xhat = load(x + c, lanes) * Batch(rstd);
        products         = fused(d * load(gamma + c, lanes), xhat, products);
        store(dgamma + c, fused(d, stored_as<X>(xhat), load(dgamma + c, lanes)), lanes);
    });
    Batch const product(horizontal_sum(products) / static_cast<float>(columns));
    for_batches(columns, [&](std::size_t c, auto lanes) {
        Batch const xhat = load(x + c, lanes) * Batch(rstd);
        Batch const g    = load(dy + c, lanes) * load(gamma + c, lanes);
        store(dx + c, Batch(rstd) * (g - xhat * product), lanes);
    });
}

}  // namespace lockstep::kernel::arch
