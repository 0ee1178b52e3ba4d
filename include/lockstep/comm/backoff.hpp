#pragma once
// Waiting that leaves the core to others: ranks may outnumber cores.

#include <chrono>
#include <string>
#include <thread>

#include "lockstep/comm/turn.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

/// What a wait that lasts asks again and again: whether it still makes sense. It gets the time at which the wait began, holds the turn to
/// call MPI, and raises an error where the wait would never end. One a process; empty where nobody has set it.
struct LongWait {
    using Time = std::chrono::steady_clock::time_point;

    void* object                            = nullptr;
    void (*check)(void* object, Time since) = nullptr;

    void operator()(Time since) const {
        if (check == nullptr) return;
        Turn const turn;
        check(object, since);
    }
};
inline LongWait long_wait;

/// Pauses between two tests of something that another rank will finish: first not at all, then it yields, then it also sleeps.
/// MPI moves data only while it is called, so even a long wait sleeps after every few tests only. Raises what `long_wait` raises.
class Backoff {
public:
    void pause() {
        ++pauses_;
        if (pauses_ <= spins) return;
        if (pauses_ <= yields || pauses_ % tests_per_sleep != 0) return std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        if (pauses_ % tests_per_check == 0) long_wait(since_);
    }

private:
    static constexpr unsigned spins           = 8;
    static constexpr unsigned yields          = 4096;
    static constexpr unsigned tests_per_sleep = 8;
    static constexpr unsigned tests_per_check = 512;  // some milliseconds

    unsigned       pauses_ = 0;
    LongWait::Time since_  = std::chrono::steady_clock::now();
};

/// How long a wait may take, seconds.
inline constexpr double default_timeout = 300;

/// The end of a wait.
class Deadline {
public:
    explicit Deadline(double seconds) : seconds_(seconds) {}

    bool passed() const { return Clock::now() - begin_ > std::chrono::duration<double>(seconds_); }
    auto begin() const noexcept { return begin_; }

    /// The peer error of a wait that was too long: which rank waited for what.
    template <class What>
    [[noreturn]] void raise(std::size_t rank, What const& what, std::uint64_t number = 0) const {
        std::string const which = number == 0 ? std::string() : sentence(", operation ", number, " of this rank");
        peer_error("rank ", rank, ": waited ", seconds_, " s for ", what, which, ", which another rank has not joined or not ended");
    }

private:
    using Clock = std::chrono::steady_clock;

    double            seconds_;
    Clock::time_point begin_ = Clock::now();
};

}  // namespace lockstep::comm
