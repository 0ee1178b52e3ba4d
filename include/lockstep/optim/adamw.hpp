#pragma once
#include "lockstep/optim/moments.hpp"
#include "lockstep/optim/optimizer.hpp"

namespace lockstep::optim {

/// Adam with decoupled decay (Loshchilov and Hutter 2019, arXiv:1711.05101): p (1 - learning rate * decay) first, then the step
/// of Adam with epsilon outside of the root.
struct AdamW {
    static constexpr std::size_t state_slots = 2;  // mean of the gradient, mean of its square

    double beta1        = 0.9;
    double beta2        = 0.95;
    double epsilon      = 1e-8;  // above 0
    double weight_decay = 0.1;

    /// Updates one owned slice in place; element i depends on element i only.
    template <precision::master_element T>
    void update(Slice<T> slice, Slots<AdamW, T> slots, StepInfo step) const noexcept {
        auto const [means, squares] = slots;
        Moments<T> const moments(beta1, beta2, epsilon, step);
        T const          keep  = static_cast<T>(slice.parameter.decays ? 1 - step.learning_rate * weight_decay : 1);
        T const          scale = static_cast<T>(step.gradient_scale);

        for (std::size_t i = 0; i < slice.size(); ++i) {
            T const gradient = scale * slice.gradients[i];
            T const decayed  = keep * slice.values[i];
            slice.values[i]  = moments.step(decayed, gradient, means[i], squares[i]);
        }
    }
};
template <>
inline constexpr bool enable_elementwise<AdamW> = true;
static_assert(optimizer<AdamW, float> && optimizer<AdamW, double>);

}  // namespace lockstep::optim
