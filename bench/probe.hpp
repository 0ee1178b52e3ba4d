#pragma once
// What one core could do: multiply-adds between registers, measured in the same run as the kernel that it is compared with.

#include <array>
#include <chrono>
#include <cstddef>
#include <ctime>

#include "lockstep/kernel/arch/simd_batch.hpp"

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

/// Multiply-adds of fp32 batches held in registers, 24 independent chains where there are 32 registers, else 12.
class FmaProbe {
public:
    static constexpr std::size_t chains = kernel::arch::width == 16 ? 24 : 12;
    static constexpr std::size_t rounds = 4096;
    static constexpr double      flop   = 2.0 * chains * rounds * kernel::arch::width;

    /// Runs once, some 20 to 50 us.
    void run() {
        using kernel::arch::Batch;
        Batch const               factor(0.999f), term(0.001f);
        std::array<Batch, chains> sums;
        sums.fill(Batch(1.0f));
        seconds_ += processor_seconds([&] { multiply_add(sums, factor, term); });
        ++runs_;
        for (Batch sum : sums) result_ += kernel::arch::horizontal_sum(sum);
    }

    /// Runs until it has had a quarter of the processor time that the kernel under test has had.
    void keep_up_with(double kernel_seconds) {
        while (seconds_ < kernel_seconds / 4) run();
    }

    /// Mean rate by processor time.
    double flop_per_s() const noexcept { return flop * static_cast<double>(runs_) / seconds_; }

    /// Keeps the compiler from dropping the work.
    float result() const noexcept { return result_; }

private:
    static void multiply_add(std::array<kernel::arch::Batch, chains>& in_memory, kernel::arch::Batch factor, kernel::arch::Batch term) {
        auto sums = in_memory;
        for (std::size_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
            for (std::size_t i = 0; i < chains; ++i) sums[i] = kernel::arch::fused(sums[i], factor, term);
        }
        in_memory = sums;
    }

    double      seconds_ = 0;
    std::size_t runs_    = 0;
    float       result_  = 0;
};

}  // namespace lockstep::bench
