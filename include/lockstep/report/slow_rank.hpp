#pragma once
// Names the rank that the others wait for.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "lockstep/report/readable.hpp"

namespace lockstep::report {

/// Which rank came last, and in what it took longer than the others.
struct Lateness {
    std::size_t rank = 0;
    double      ms   = 0;  // after the last of the others
    std::string where{};   // "backward of h.3"; empty where nothing took longer
};

/// Counts who was late by more than a twentieth of a step, or by more than what a busy machine does to any rank.
class SlowRank {
public:
    static constexpr double notable = 0.05, always_notable_ms = 20;

    void add(Lateness const& late, double step_ms) {
        ++steps_;
        if (late.ms < std::min(notable * step_ms, always_notable_ms)) return;
        auto& sum = late_[{late.rank, late.where}];
        sum.ms += late.ms;
        ++sum.steps;
    }

    /// A sentence, or nothing where no rank was late: "rank 1 came last in 18 of 20 steps, 51.2 ms behind the others: backward of h.3".
    std::string sentence() const {
        if (late_.empty()) return {};
        auto worst = late_.begin();
        for (auto entry = late_.begin(); entry != late_.end(); ++entry)
            if (entry->second.ms > worst->second.ms) worst = entry;
        auto const& [key, sum] = *worst;
        std::string text       = "rank " + std::to_string(key.first) + " came last in " + std::to_string(sum.steps) + " of " +
                           std::to_string(steps_) + (steps_ == 1 ? " step, " : " steps, ") +
                           fixed(sum.ms / static_cast<double>(sum.steps), 1) + " ms behind the others";
        return key.second.empty() ? text : text + ": " + key.second;
    }

private:
    struct Sum {
        double        ms    = 0;
        std::uint64_t steps = 0;
    };
    std::map<std::pair<std::size_t, std::string>, Sum> late_;
    std::uint64_t                                      steps_ = 0;
};

}  // namespace lockstep::report
