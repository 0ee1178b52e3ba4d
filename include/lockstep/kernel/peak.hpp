#pragma once
// What the threads could do at most: multiply-adds between registers. Kernels and steps are measured against it, in the same run.

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <limits>
#include <numeric>

#include "lockstep/kernel/isa.hpp"
#include "lockstep/kernel/probes.hpp"
#include "lockstep/runtime/parallel_for.hpp"

namespace lockstep::kernel {

namespace detail {

/// `tasks` runs of a probe on the threads at hand, five times: the best rate.
template <class Probe, std::size_t tasks>
double best_rate() {
    std::array<float, tasks> results{};
    double                   best = std::numeric_limits<double>::infinity();
    for (int repeat = 0; repeat < 5; ++repeat) {
        auto const begin = std::chrono::steady_clock::now();
        runtime::parallel_for(tasks, Probe::rounds * Probe::chains, [&](std::size_t i) { results[i] = Probe::run(); });
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    volatile float kept = std::accumulate(results.begin(), results.end(), 0.0f);  // else nothing was computed
    static_cast<void>(kept);
    return tasks * Probe::flop / best;
}

}  // namespace detail

/// Floating-point operations per second of all threads of the surrounding `Threads::run`, by the unit in use for the compute type: for
/// bfloat16 tiles or vectors of pairs where the kernels use them, else fp32 multiply-adds. Takes some milliseconds.
template <class Compute = float>
double measure_peak_flops() {
    if (std::same_as<Compute, precision::bfloat16> && isa() == Isa::amx) return detail::best_rate<TileProbe, 8>();
    if (std::same_as<Compute, precision::bfloat16> && isa() == Isa::avx512) return detail::best_rate<PairProbe, 64>();
    return detail::best_rate<FmaProbe, 64>();
}

}  // namespace lockstep::kernel
