#pragma once
// The steps of a run in bounded memory.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/report/metrics.hpp"

namespace lockstep::report {

/// Keeps every step of a short run, and every n-th of a long one, with n a power of two. The first and the latest step, and steps with
/// a validation loss, are always there.
class History {
public:
    explicit History(std::size_t most = 4096) : most_(most) {}

    void add(StepMetrics const& step) {
        if (!steps_.empty() && !keeps(seen_ - 1, steps_.back())) steps_.pop_back();
        steps_.push_back(step);
        numbers_.resize(steps_.size() - 1);
        numbers_.push_back(seen_++);
        if (steps_.size() > most_) thin();
    }

    std::vector<StepMetrics> const& steps() const noexcept { return steps_; }

private:
    bool keeps(std::uint64_t number, StepMetrics const& step) const noexcept { return number % stride_ == 0 || step.val_loss.has_value(); }

    void thin() {
        stride_ *= 2;
        std::size_t kept = 0;
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            if (!keeps(numbers_[i], steps_[i]) && i + 1 != steps_.size()) continue;
            if (kept != i) steps_[kept] = std::move(steps_[i]);
            numbers_[kept++] = numbers_[i];
        }
        steps_.resize(kept);
        numbers_.resize(kept);
    }

    std::size_t                most_;
    std::uint64_t              stride_ = 1, seen_ = 0;
    std::vector<StepMetrics>   steps_;
    std::vector<std::uint64_t> numbers_;  // of these steps, from 0
};

}  // namespace lockstep::report
