#pragma once
// Cross entropy of one row of logits, element by element.

#include <cmath>
#include <cstddef>
#include <limits>

#include "lockstep/kernel/arch/scalar_convert.hpp"

namespace lockstep::kernel::arch {

template <class A>
struct RowLoss {
    A loss;
    A lse;  // logarithm of the sum of exponentials
};

/// loss = log(sum(exp(x))) - x[label], taken around the largest logit.
template <class L, class A = precision::accumulator<L>>
RowLoss<A> cross_entropy_row(scalar, L const* logits, std::size_t vocab, std::size_t label) noexcept {
    A largest = -std::numeric_limits<A>::infinity();
    for (std::size_t v = 0; v < vocab; ++v)
        if (static_cast<A>(logits[v]) > largest) largest = static_cast<A>(logits[v]);
    A sum = 0;
    for (std::size_t v = 0; v < vocab; ++v) sum += std::exp(static_cast<A>(logits[v]) - largest);
    A const log_sum = std::log(sum);
    return {log_sum - (static_cast<A>(logits[label]) - largest), largest + log_sum};
}

/// dlogits = scale * (softmax - onehot). May be the memory of logits.
template <class L, class D, class A = precision::accumulator<L>>
void cross_entropy_backward_row(scalar, L const* logits, std::size_t vocab, std::size_t label, A lse, A scale, D* dlogits) noexcept {
    A const at_label = scale * std::expm1(static_cast<A>(logits[label]) - lse);
    for (std::size_t v = 0; v < vocab; ++v) dlogits[v] = rounded<D>(scale * std::exp(static_cast<A>(logits[v]) - lse));
    dlogits[label] = rounded<D>(at_label);
}

}  // namespace lockstep::kernel::arch
