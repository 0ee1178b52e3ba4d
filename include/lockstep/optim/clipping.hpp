#pragma once
// Clipping by the global norm (Pascanu et al. 2013, arXiv:1211.5063), after unscaling.

#include <algorithm>
#include <cmath>
#include <optional>

namespace lockstep::optim {

/// What one step's gradients measure, and what raw ones are multiplied by.
struct Clipping {
    double                norm = 0;        // of the unscaled gradients, before clipping; not finite where one of them is not
    std::optional<double> gradient_scale;  // clipping / loss scale; empty where the norm is not finite: the step must be skipped
};

/// min(1, max_norm / (norm + 1e-6)); a max_norm of 0 turns clipping off. Empty where the norm is not finite.
[[nodiscard]] inline std::optional<double> clip_coefficient(double norm, double max_norm) noexcept {
    if (!std::isfinite(norm)) return std::nullopt;
    return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

/// From the norm of raw gradients, which carry the loss scale.
[[nodiscard]] inline Clipping clip(double raw_norm, double loss_scale, double max_norm) noexcept {
    Clipping result{.norm = raw_norm / loss_scale, .gradient_scale = {}};
    if (auto const coefficient = clip_coefficient(result.norm, max_norm)) result.gradient_scale = *coefficient / loss_scale;
    return result;
}

}  // namespace lockstep::optim
