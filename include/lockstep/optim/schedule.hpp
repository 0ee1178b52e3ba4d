#pragma once
// The learning rate as a function of the version: it holds no state, so a skipped step and a resumed run stay in place.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/state/version.hpp"

namespace lockstep::optim {

enum class Shape {
    constant,
    cosine,  // half a cosine from the end of the warm-up to `total` (Loshchilov and Hutter 2017, arXiv:1608.03983)
    wsd,     // warm-up, stable, linear decay over the last `decay_fraction` of `total` (Hu et al. 2024, arXiv:2404.06395)
};

struct Schedule {
    double         learning_rate  = 1e-3;
    Shape          shape          = Shape::constant;
    state::Version warmup         = 0;  // version v < warmup: (v + 1) / warmup
    state::Version total          = 0;  // from this version on the least ratio holds; 0: the rate stays, there is no end
    double         min_ratio      = 0;
    double         decay_fraction = 0.2;

    /// The part of `learning_rate` with which version v becomes version v + 1.
    double multiplier(state::Version version) const noexcept {
        double const v = static_cast<double>(version), start = static_cast<double>(warmup), end = static_cast<double>(total);
        if (version < warmup) return (v + 1) / start;
        if (shape == Shape::constant || total == 0) return 1;
        if (version >= total) return min_ratio;
        if (shape == Shape::cosine)
            return min_ratio + (1 - min_ratio) * 0.5 * (1 + std::cos(std::numbers::pi * (v - start) / (end - start)));
        double const length = std::min(decay_fraction * end, end - start);
        return length > 0 ? min_ratio + (1 - min_ratio) * std::min(1.0, (end - v) / length) : 1;
    }

    double operator()(state::Version version) const noexcept { return learning_rate * multiplier(version); }
};

}  // namespace lockstep::optim
