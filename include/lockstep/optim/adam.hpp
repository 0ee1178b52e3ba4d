#pragma once
#include <cmath>

#include "lockstep/core/multiply_add.hpp"
#include "lockstep/optim/optimizer.hpp"

namespace lockstep::optim {

/// Adam (Kingma and Ba 2015, arXiv:1412.6980) with epsilon outside of the root and decay added to the gradient.
struct Adam {
    static constexpr std::size_t state_slots = 2;  // mean of the gradient, mean of its square

    double beta1        = 0.9;
    double beta2        = 0.95;
    double epsilon      = 1e-8;  // above 0
    double weight_decay = 0;

    /// Updates one owned slice in place; element i depends on element i only.
    template <precision::master_element T>
    void update(Slice<T> slice, Slots<Adam, T> slots, StepInfo step) const noexcept {
        auto const [means, squares] = slots;
        double const count          = static_cast<double>(step.step);
        T const      decay          = static_cast<T>(slice.parameter.decays ? weight_decay : 0);
        T const      scale          = static_cast<T>(step.gradient_scale);
        T const      keep1 = static_cast<T>(beta1), take1 = static_cast<T>(1 - beta1);
        T const      keep2 = static_cast<T>(beta2), take2 = static_cast<T>(1 - beta2);
        T const      rate    = static_cast<T>(step.learning_rate / (1 - std::pow(beta1, count)));
        T const      unbias2 = static_cast<T>(1 / std::sqrt(1 - std::pow(beta2, count)));
        T const      least   = static_cast<T>(epsilon);

        for (std::size_t i = 0; i < slice.size(); ++i) {
            T const value    = slice.values[i];
            T const gradient = multiply_add(decay, value, scale * slice.gradients[i]);
            T const mean     = multiply_add(keep1, means[i], take1 * gradient);
            T const square   = multiply_add(keep2, squares[i], take2 * gradient * gradient);
            means[i]         = mean;
            squares[i]       = square;
            slice.values[i]  = multiply_add(-rate, mean / multiply_add(std::sqrt(square), unbias2, least), value);
        }
    }
};
template <>
inline constexpr bool enable_elementwise<Adam> = true;
static_assert(optimizer<Adam, float> && optimizer<Adam, double>);

}  // namespace lockstep::optim
