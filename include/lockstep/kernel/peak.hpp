#pragma once
// What the threads could do at most: multiply-adds between registers. Kernels and steps are measured against it, in the same run.

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <limits>

#include "lockstep/kernel/arch/simd_batch.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/kernel/tile_peak.hpp"
#include "lockstep/runtime/parallel_for.hpp"

namespace lockstep::kernel {

/// A loop of fp32 multiply-adds that loads and stores nothing: 24 independent chains where there are 32 registers, else 12.
class FmaProbe {
public:
    static constexpr std::size_t chains = arch::width == 16 ? 24 : 12;
    static constexpr std::size_t rounds = 4096;
    static constexpr double      flop   = 2.0 * chains * rounds * arch::width;

    /// Runs once, some 20 to 50 us. The value returned keeps the compiler from dropping the work.
    static float run() {
        arch::Batch const               factor(0.999f), term(0.001f);
        std::array<arch::Batch, chains> sums;
        sums.fill(arch::Batch(1.0f));
        for (std::size_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
            for (std::size_t i = 0; i < chains; ++i) sums[i] = arch::fused(sums[i], factor, term);
        }
        float result = 0;
        for (arch::Batch const& sum : sums) result += arch::horizontal_sum(sum);
        return result;
    }
};

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
    return tasks * Probe::flop / best;
}

}  // namespace detail

/// Floating-point operations per second of all threads of the surrounding `Threads::run`, by the fastest unit in use for the compute type:
/// tiles for bfloat16 where there are any, else fp32 multiply-adds. Takes some milliseconds.
template <class Compute = float>
double measure_peak_flops() {
    if (std::same_as<Compute, precision::bfloat16> && isa() == Isa::amx) return detail::best_rate<TileProbe, 8>();
    return detail::best_rate<FmaProbe, 64>();
}

}  // namespace lockstep::kernel
