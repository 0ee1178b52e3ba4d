#pragma once
// Where the time of a step's thread goes: every nanosecond belongs to exactly one activity.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace lockstep::observe {

enum class Activity { compute, parameters_wait, gradients_wait, update, other };

inline constexpr std::size_t activities = 5;

/// Nanoseconds by activity.
struct StepTimes {
    std::array<std::int64_t, activities> ns{};

    std::int64_t operator[](Activity activity) const noexcept { return ns[static_cast<std::size_t>(activity)]; }
    std::int64_t total() const noexcept {
        std::int64_t sum = 0;
        for (std::int64_t part : ns) sum += part;
        return sum;
    }
};

/// Used by one thread. Two clock readings an activity, no allocation.
class StepClock {
public:
    void restart() noexcept {
        times_   = {};
        current_ = Activity::other;
        since_   = Clock::now();
    }

    /// Books the time since the last change and returns what it was for.
    Activity enter(Activity next) noexcept {
        auto const now = Clock::now();
        times_.ns[static_cast<std::size_t>(current_)] += std::chrono::duration_cast<std::chrono::nanoseconds>(now - since_).count();
        since_ = now;
        return std::exchange(current_, next);
    }

    StepTimes times() noexcept {
        enter(current_);
        return times_;
    }

private:
    using Clock = std::chrono::steady_clock;

    StepTimes         times_;
    Activity          current_ = Activity::other;
    Clock::time_point since_   = Clock::now();
};

/// An activity for the length of a scope.
class Spell {
public:
    Spell(StepClock& clock, Activity activity) noexcept : clock_(clock), before_(clock.enter(activity)) {}
    Spell(Spell const&)            = delete;
    Spell& operator=(Spell const&) = delete;
    ~Spell() { clock_.enter(before_); }

private:
    StepClock& clock_;
    Activity   before_;
};

}  // namespace lockstep::observe
