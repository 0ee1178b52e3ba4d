#pragma once
// Waiting that leaves the core to others: ranks may outnumber cores.

#include <chrono>
#include <thread>

namespace lockstep::comm {

/// Pauses between two tests of something that another rank will finish: first not at all, then it yields, then it also sleeps.
/// MPI moves data only while it is called, so even a long wait sleeps after every few tests only.
class Backoff {
public:
    void pause() {
        ++pauses_;
        if (pauses_ <= spins) return;
        if (pauses_ > yields && pauses_ % tests_per_sleep == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        else
            std::this_thread::yield();
    }

private:
    static constexpr unsigned spins           = 8;
    static constexpr unsigned yields          = 4096;
    static constexpr unsigned tests_per_sleep = 8;

    unsigned pauses_ = 0;
};

}  // namespace lockstep::comm
