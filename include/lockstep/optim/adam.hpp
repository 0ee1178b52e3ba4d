#pragma once
#include "lockstep/core/multiply_add.hpp"
#include "lockstep/optim/moments.hpp"
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
        Moments<T> const moments(beta1, beta2, epsilon, step);
        T const          decay = static_cast<T>(slice.parameter.decays ? weight_decay : 0);
        T const          scale = static_cast<T>(step.gradient_scale);

        for (std::size_t i = 0; i < slice.size(); ++i) {
            T const value    = slice.values[i];
            T const gradient = multiply_add(decay, value, scale * slice.gradients[i]);
            slice.values[i]  = moments.step(value, gradient, means[i], squares[i]);
        }
    }
};
template <>
inline constexpr bool enable_elementwise<Adam> = true;
static_assert(optimizer<Adam, float> && optimizer<Adam, double>);

}  // namespace lockstep::optim
