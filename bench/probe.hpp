#pragma once
// What a core could do, measured in the same run as the kernel that it is compared with, because the clock drifts.

#include <benchmark/benchmark.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <ctime>
#include <string>
#include <vector>

#include "lockstep/kernel/peak.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "operands.hpp"

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

/// Calls that fill a millisecond, found by calls that warm up: the clocks and the probe cost as much as a kernel of some microseconds.
template <class F>
std::size_t runs_of_a_sample(F&& f) {
    double once = seconds(f);
    if (once < 1e-3) once = seconds(f);
    return static_cast<std::size_t>(std::clamp(1e-3 / once, 1.0, 1e5));
}

/// FLOP/s of this core in a loop without loads and stores, by the unit in use for products of T: for bfloat16 tiles or vectors of pairs
/// where the kernels use them, else fp32 multiply-adds. Takes about a millisecond.
template <class T>
double core_flop_per_s() {
    auto const rate = []<class Probe>(Probe, int runs) {
        float (*volatile const run)() = &Probe::run;  // volatile: else the compiler may call it once for all runs
        return runs * Probe::flop / processor_seconds([&] {
                   for (int i = 0; i < runs; ++i) benchmark::DoNotOptimize(run());
               });
    };
    constexpr int short_runs = 32;  // of some 20 to 50 us; those of tiles are long enough
    if (std::same_as<T, precision::bfloat16> && kernel::isa() == kernel::Isa::amx) return rate(kernel::TileProbe{}, 1);
    if (std::same_as<T, precision::bfloat16> && kernel::isa() == kernel::Isa::avx512) return rate(kernel::PairProbe{}, short_runs);
    return rate(kernel::FmaProbe{}, short_runs);
}

/// Bytes per second of x += c over an array that no cache holds, on the threads at hand.
class MemoryProbe {
public:
    double bytes_per_s() {
        constexpr std::size_t block = 65536;
        double const          taken = seconds([&] {
            runtime::parallel_for(count / block, block, [&](std::size_t b) {
                float* const at = memory_.get() + b * block;
                for (std::size_t i = 0; i < block; ++i) at[i] += 1.0f;
            });
        });
        return 2.0 * sizeof(float) * count / taken;
    }

private:
    static constexpr std::size_t count = std::size_t{1} << 27;  // 512 MiB

    Buffer<float> memory_{count};
};

/// Rates of samples, each with what the probe says in the moments around it, and with the rate of something else where it is compared.
class Samples {
public:
    void add(double rate, double probe_before, double probe_after) {
        rates_.push_back(rate);
        of_peak_.push_back(rate / (0.5 * (probe_before + probe_after)));
    }
    void add(double rate) { rates_.push_back(rate); }
    /// The last sample's rate is compared with this one.
    void compare(double other_rate) {
        other_rates_.push_back(other_rate);
        ratios_.push_back(rates_.back() / other_rate);
    }
    /// Medians: `rate` ("flop_per_s", "bytes_per_s"); of_peak, the ratio to the probe; `other`_`rate` and ratio, the first to the second.
    void show(benchmark::State& state, std::string const& rate, std::string const& other = "one_thread") const {
        state.counters[rate] = median(rates_);
        if (!of_peak_.empty()) state.counters["of_peak"] = median(of_peak_);
        if (ratios_.empty()) return;
        state.counters[other + "_" + rate] = median(other_rates_);
        state.counters["ratio"]            = median(ratios_);
    }

private:
    std::vector<double> rates_, of_peak_, other_rates_, ratios_;
};

/// Seconds of one call on one thread. Not by `runtime::Threads`, which would send the others away.
template <class F>
double seconds_on_one_thread(F&& f) {
    static tbb::task_arena one(1);
    return one.execute([&] { return seconds(f); });
}

/// Runs a kernel that makes `flop` operations on elements of T, to warm up and then once a sample, or as often as fills a millisecond,
/// each sample between two runs of the probe. One thread, by its processor time: other processes do not count. Several threads, by the
/// clock, against the probe on one core times threads, and in turns with one thread: that means something on a quiet machine only.
template <class T, class Run>
void measure(benchmark::State& state, double flop, int threads, Run const& run) {
    Samples samples;
    runtime::Threads(threads).run([&] {
        std::size_t const runs   = runs_of_a_sample(run);
        double const      work   = static_cast<double>(runs) * flop;
        auto const        sample = [&] {
            for (std::size_t i = 0; i < runs; ++i) run();
        };
        double before = core_flop_per_s<T>();
        while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(runs))) {
            double const alone = threads > 1 ? seconds_on_one_thread(sample) : 0;
            if (threads > 1) run();  // wakes the others
            double const taken = threads > 1 ? seconds(sample) : processor_seconds(sample), after = core_flop_per_s<T>();
            samples.add(work / taken, threads * before, threads * after);
            if (threads > 1) samples.compare(work / alone);
            before = after;
            state.SetIterationTime(taken);
        }
    });
    samples.show(state, "flop_per_s");
}

}  // namespace lockstep::bench
