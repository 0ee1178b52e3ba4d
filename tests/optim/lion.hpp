#pragma once
// An optimizer that the library does not have, written as a user would.

#include "lockstep/optim/optimizer.hpp"

/// Lion: step along the sign of an interpolated momentum (Chen et al. 2023, arXiv:2302.06675).
struct Lion {
    static constexpr std::size_t state_slots = 1;  // momentum

    float beta1        = 0.9f;
    float beta2        = 0.99f;
    float weight_decay = 0.1f;

    template <lockstep::precision::master_element T>
    void update(lockstep::optim::Slice<T> slice, lockstep::optim::Slots<Lion, T> slots, lockstep::optim::StepInfo step) const noexcept {
        T const rate  = static_cast<T>(step.learning_rate);
        T const scale = static_cast<T>(step.gradient_scale);
        T const keep  = slice.parameter.decays ? 1 - rate * static_cast<T>(weight_decay) : T{1};
        for (std::size_t i = 0; i < slice.size(); ++i) {
            T const gradient  = scale * slice.gradients[i];
            T const direction = static_cast<T>(beta1) * slots[0][i] + static_cast<T>(1 - beta1) * gradient;
            T const sign      = static_cast<T>((direction > 0) - (direction < 0));
            slots[0][i]       = static_cast<T>(beta2) * slots[0][i] + static_cast<T>(1 - beta2) * gradient;
            slice.values[i]   = keep * slice.values[i] - rate * sign;
        }
    }
};
template <>
inline constexpr bool lockstep::optim::enable_elementwise<Lion> = true;
static_assert(lockstep::optim::optimizer<Lion, float>);
