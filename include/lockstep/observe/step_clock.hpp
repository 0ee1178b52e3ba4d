#pragma once
// Where the time of a step's thread goes: every nanosecond belongs to exactly one activity.

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/observe/event.hpp"

namespace lockstep::observe {

/// Nanoseconds by activity.
struct StepTimes {
    std::array<Nanoseconds, activities> ns{};

    Nanoseconds  operator[](Activity activity) const noexcept { return ns[static_cast<std::size_t>(activity)]; }
    Nanoseconds& operator[](Activity activity) noexcept { return ns[static_cast<std::size_t>(activity)]; }
    Nanoseconds  total() const noexcept {
         Nanoseconds sum = 0;
         for (Nanoseconds part : ns) sum += part;
        return sum;
    }
};

/// Used by one thread at a time. It keeps the changes of a step too, up to `most_changes`; the sums are exact beyond that.
class StepClock {
public:
    static constexpr std::size_t most_changes = 8192;

    /// From `at` on the thread does this.
    struct Change {
        Nanoseconds at       = 0;
        Activity    activity = Activity::other;
    };

    StepClock() { changes_.reserve(most_changes); }

    void restart(Nanoseconds now) noexcept {
        times_   = {};
        current_ = Activity::other;
        since_   = now;
        changes_.assign(1, {now, current_});
    }

    /// Books the time since the last change and returns what it was for.
    Activity enter(Activity next, Nanoseconds now) noexcept {
        times_[current_] += now - since_;
        since_ = now;
        if (next != current_ && changes_.size() < most_changes) changes_.push_back({now, next});
        return std::exchange(current_, next);
    }

    StepTimes times(Nanoseconds now) noexcept {
        enter(current_, now);
        return times_;
    }

    std::span<Change const> changes() const noexcept { return changes_; }

private:
    StepTimes           times_;
    Activity            current_ = Activity::other;
    Nanoseconds         since_   = 0;
    std::vector<Change> changes_;
};

}  // namespace lockstep::observe
