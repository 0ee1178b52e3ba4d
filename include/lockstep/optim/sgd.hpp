#pragma once
#include "lockstep/core/multiply_add.hpp"
#include "lockstep/optim/optimizer.hpp"

namespace lockstep::optim {

/// Stochastic gradient descent with momentum (Sutskever et al. 2013, in the form that PyTorch computes): the buffer starts as the
/// first gradient, the learning rate is outside of it. Decay is added to the gradient.
struct Sgd {
    static constexpr std::size_t state_slots = 1;  // momentum

    double momentum     = 0;
    double dampening    = 0;
    double weight_decay = 0;
    bool   nesterov     = false;

    /// Updates one owned slice in place; element i depends on element i only.
    template <precision::master_element T>
    void update(Slice<T> slice, Slots<Sgd, T> slots, StepInfo step) const noexcept {
        std::span<T> const buffer = slots[0];
        T const            decay  = static_cast<T>(slice.parameter.decays ? weight_decay : 0);
        T const            scale  = static_cast<T>(step.gradient_scale);
        T const            rate   = static_cast<T>(step.learning_rate);
        T const            keep   = static_cast<T>(step.step == 1 ? 0 : momentum);
        T const            take   = static_cast<T>(step.step == 1 ? 1 : 1 - dampening);
        T const            ahead  = static_cast<T>(momentum);

        for (std::size_t i = 0; i < slice.size(); ++i) {
            T const value     = slice.values[i];
            T const gradient  = multiply_add(decay, value, scale * slice.gradients[i]);
            T       direction = gradient;
            if (ahead != 0) {
                T const moved = multiply_add(keep, buffer[i], take * gradient);
                buffer[i]     = moved;
                direction     = nesterov ? multiply_add(ahead, moved, gradient) : moved;
            }
            slice.values[i] = multiply_add(-rate, direction, value);
        }
    }
};
template <>
inline constexpr bool enable_elementwise<Sgd> = true;
static_assert(optimizer<Sgd, float> && optimizer<Sgd, double>);

}  // namespace lockstep::optim
