// The update of masters: unscale, clip, step, both copies of the weights, cleared gradients, in one pass over memory on all cores. Each
// sample lies between two runs of a probe that adds to a large array in place, and has its own random gradients, written outside of the
// timing. Counters, medians: bytes_per_s and of_peak, the ratio to the bytes that the probe moves. Bytes of a parameter: masters and each
// slot of state read and written, gradients read and cleared, weights written. Compute weights are bf16, or fp32 where the name says so.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <span>
#include <vector>

#include "lockstep/nn/declaration.hpp"
#include "lockstep/optim/adam.hpp"
#include "lockstep/optim/adamw.hpp"
#include "lockstep/optim/bf16_state.hpp"
#include "lockstep/optim/sgd.hpp"
#include "lockstep/parallel/single.hpp"
#include "lockstep/runtime/cores.hpp"
#include "lockstep/train/masters.hpp"
#include "operands.hpp"
#include "probe.hpp"

namespace {

using namespace lockstep;
using tensor::ArenaStorage;

/// Other numbers each time.
template <class Master>
void fill_random(std::span<Master> gradients, std::size_t purpose) {
    constexpr std::size_t block = 16384;
    runtime::parallel_for((gradients.size() + block - 1) / block, 4 * block, [&](std::size_t b) {
        std::size_t const begin = b * block, end = std::min(gradients.size(), begin + block);
        for (std::size_t i = begin; i < end; ++i) gradients[i] = static_cast<Master>(1e-3f * bench::normal(i + 7919 * purpose));
    });
}

template <class Precision, class Optimizer>
void update(benchmark::State& state) {
    using Bound  = parallel::Single::Bound<Precision, ArenaStorage>;
    using Master = typename Precision::master;
    using Owner  = Masters<Precision, Optimizer, ArenaStorage>;

    auto const               side = std::size_t{4096};
    std::size_t const        rows = static_cast<std::size_t>(state.range(0)) / side;
    std::vector<state::Unit> units(1);
    nn::Declaration          declaration(units[0], kernel::weight_layout<typename Precision::compute>());
    declaration.matrix("w", rows, side, {0, 0.02f});
    Bound              bound({}, units, {});
    Owner              masters(units, {bound.owned(0)}, {});
    bench::MemoryProbe probe;
    bench::Samples     samples;
    Optimizer const    optimizer{};
    runtime::Threads   threads(runtime::threads_for(1));
    std::size_t const  slots = Optimizer::state_slots, copies = units[0].copies();
    double const       weights =
        std::same_as<typename Precision::compute, Master> ? 0 : static_cast<double>(copies * sizeof(typename Precision::compute));
    double const bytes = static_cast<double>(rows * side) *
                         (static_cast<double>(4 * sizeof(Master) + 2 * slots * sizeof(optim::StateElement<Optimizer, Master>)) + weights);
    optim::StepInfo step{.step = 1, .learning_rate = 1e-3, .gradient_scale = 1};
    threads.run([&] {
        masters.initialize(1);
        fill_random(bound.owned(0).gradients, step.step);
        masters.update(optimizer, step);
        for (auto _ : state) {
            ++step.step;
            fill_random(bound.owned(0).gradients, step.step);
            double const before  = probe.bytes_per_s();
            double const seconds = bench::seconds([&] { masters.update(optimizer, step); }), after = probe.bytes_per_s();
            samples.add(bytes / seconds, before, after);
            state.SetIterationTime(seconds);
        }
    });
    samples.show(state, "bytes_per_s");
}

using precision::Bf16;
using precision::Fp32;

template <class Precision, class Optimizer>
void add(char const* name) {
    benchmark::RegisterBenchmark(name, update<Precision, Optimizer>)
        ->ArgName("params")
        ->Arg(std::int64_t{32} << 20)
        ->UseManualTime()
        ->Iterations(15)
        ->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    add<Bf16, optim::AdamW>("adamw");
    add<Bf16, optim::Bf16State<optim::AdamW>>("adamw_bf16_state");
    add<Bf16, optim::Adam>("adam");
    add<Bf16, optim::Sgd>("sgd");
    add<Fp32, optim::AdamW>("adamw/fp32");
    benchmark::RunSpecifiedBenchmarks();
}
