#pragma once
// What one core could do: multiply-adds between registers, measured in the same run as the kernel that it is compared with.

#include <chrono>
#include <cstddef>
#include <ctime>

#include "lockstep/kernel/peak.hpp"

namespace lockstep::bench {

/// Seconds of one call.
template <class F>
double seconds(F&& f) {
    auto const begin = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Seconds that this thread spent on a processor in one call: what other processes take does not count.
template <class F>
double processor_seconds(F&& f) {
    auto const now = [] {
        timespec time{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    double const begin = now();
    f();
    return now() - begin;
}

/// The rate of register-only multiply-adds (kernel::FmaProbe) in the same stretch of time as a kernel, by processor time.
class PeakMeter {
public:
    /// Runs until it has had a quarter of the processor time that the kernel under test has had.
    void keep_up_with(double kernel_seconds) {
        while (seconds_ < kernel_seconds / 4 || runs_ == 0) {
            seconds_ += processor_seconds([&] { result_ += kernel::FmaProbe::run(); });
            ++runs_;
        }
    }

    /// Mean rate by processor time.
    double flop_per_s() const noexcept { return kernel::FmaProbe::flop * static_cast<double>(runs_) / seconds_; }

    /// Keeps the compiler from dropping the work.
    float result() const noexcept { return result_; }

private:
    double      seconds_ = 0;
    std::size_t runs_    = 0;
    float       result_  = 0;
};

}  // namespace lockstep::bench
