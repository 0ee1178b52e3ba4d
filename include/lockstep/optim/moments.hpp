#pragma once
// What Adam and AdamW share: running means of the gradient and of its square, and the step along their ratio.

#include <cmath>

#include "lockstep/core/multiply_add.hpp"
#include "lockstep/optim/optimizer.hpp"

namespace lockstep::optim {

/// The coefficients of one update, as all elements of a slice share them.
template <precision::master_element T>
class Moments {
public:
    Moments(double beta1, double beta2, double epsilon, StepInfo step) noexcept
        : keep1_(static_cast<T>(beta1)),
          take1_(static_cast<T>(1 - beta1)),
          keep2_(static_cast<T>(beta2)),
          take2_(static_cast<T>(1 - beta2)),
          rate_(static_cast<T>(step.learning_rate / (1 - std::pow(beta1, static_cast<double>(step.step))))),
          unbias2_(static_cast<T>(1 / std::sqrt(1 - std::pow(beta2, static_cast<double>(step.step))))),
          least_(static_cast<T>(epsilon)) {}

    /// Moves `mean` and `square` on by a gradient; returns where that takes `value`.
    T step(T value, T gradient, T& mean, T& square) const noexcept {
        mean   = multiply_add(keep1_, mean, take1_ * gradient);
        square = multiply_add(keep2_, square, take2_ * gradient * gradient);
        return multiply_add(-rate_, mean / multiply_add(std::sqrt(square), unbias2_, least_), value);
    }

private:
    T keep1_, take1_, keep2_, take2_;  // of the running means
    T rate_;                           // learning rate / (1 - beta1^t)
    T unbias2_;                        // 1 / sqrt(1 - beta2^t)
    T least_;                          // epsilon
};

}  // namespace lockstep::optim
