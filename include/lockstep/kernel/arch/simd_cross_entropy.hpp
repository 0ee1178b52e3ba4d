#pragma once
// Cross entropy of one row of logits in batches.

#include <cmath>
#include <cstddef>
#include <limits>

#include "lockstep/kernel/arch/scalar_cross_entropy.hpp"
#include "lockstep/kernel/arch/simd_rows.hpp"

namespace lockstep::kernel::arch {

template <simd_element L>
RowLoss<float> cross_entropy_row(simd, L const* logits, std::size_t vocab, std::size_t label) noexcept {
    constexpr float lowest = -std::numeric_limits<float>::infinity();
    Batch           most(lowest);
    for_batches(vocab, [&](std::size_t v, auto lanes) {
        Batch const value = load(logits + v, lanes, lowest);
        most              = xsimd::select(value > most, value, most);  // NaN is left to the sum
    });
    float const largest = horizontal_max(most);
    float const sum = sum_batches(vocab, [&](std::size_t v, auto lanes) { return exp(load(logits + v, lanes, lowest) - Batch(largest)); });
    float const log_sum = std::log(sum);
    return {log_sum - (static_cast<float>(logits[label]) - largest), largest + log_sum};
}

template <simd_element L, simd_element D>
void cross_entropy_backward_row(simd, L const* logits, std::size_t vocab, std::size_t label, float lse, float scale, D* dlogits) noexcept {
    float const at_label = scale * std::expm1(static_cast<float>(logits[label]) - lse);
    for_batches(vocab,
                [&](std::size_t v, auto lanes) { store(dlogits + v, Batch(scale) * exp(load(logits + v, lanes) - Batch(lse)), lanes); });
    dlogits[label] = static_cast<D>(at_label);
}

}  // namespace lockstep::kernel::arch
