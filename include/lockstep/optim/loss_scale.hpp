#pragma once
// The factor on the loss that keeps small fp16 gradients above zero. Its verdict is agreed by all ranks before it is told here.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "lockstep/precision/mixed.hpp"

namespace lockstep::optim {

struct LossScaling {
    double        initial  = 65536;
    double        growth   = 2;
    double        backoff  = 0.5;
    std::uint64_t interval = 2000;  // clean steps before the scale grows
};

/// What a checkpoint keeps of a loss scale.
struct LossScaleState {
    double        scale       = 1;
    std::uint64_t clean_steps = 0;

    bool operator==(LossScaleState const&) const = default;
};

/// Grows after `interval` clean steps, backs off on a gradient that is not finite (Micikevicius et al. 2018, arXiv:1710.03740).
class DynamicLossScale {
public:
    explicit DynamicLossScale(LossScaling options = {}) noexcept : options_(options), state_{options.initial, 0} {}

    double scale() const noexcept { return state_.scale; }

    /// Told once a step whether all gradients of all ranks were finite.
    void update(bool finite) noexcept {
        if (!finite)
            state_ = {state_.scale * options_.backoff, 0};
        else if (++state_.clean_steps >= options_.interval)
            state_ = {state_.scale * options_.growth, 0};
        state_.scale = std::clamp(state_.scale, 0x1p-126, 0x1p126);  // it and its inverse are floats
    }

    LossScaleState state() const noexcept { return state_; }
    void           restore(LossScaleState state) noexcept { state_ = state; }

private:
    LossScaling    options_;
    LossScaleState state_;
};

/// The same interface where the compute type needs no scaling: the scale is 1.
class NoLossScale {
public:
    explicit NoLossScale(LossScaling = {}) noexcept {}

    static constexpr double scale() noexcept { return 1; }
    void                    update(bool) noexcept {}

    LossScaleState state() const noexcept { return {}; }
    void           restore(LossScaleState) noexcept {}
};

/// The loss scale that a precision policy asks for.
template <precision::precision P>
using LossScale = std::conditional_t<P::scaling::dynamic, DynamicLossScale, NoLossScale>;

}  // namespace lockstep::optim
