// The update of masters: unscale, clip, step, both copies of the weights, cleared gradients, in one pass over memory on all cores. Each
// sample lies between two runs of a probe that adds to a large array in place. Counters, medians: bytes_per_s and of_peak, the ratio to the
// bytes that the probe moves. Bytes of a parameter: masters and each slot of state read and written, gradients read and cleared, weights
// written.

#include <benchmark/benchmark.h>

#include <string>
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
    threads.run([&] {
        masters.initialize(1);
        masters.update(optimizer, {1, 1e-3, 1.0});
        double before = probe.bytes_per_s();
        for (auto _ : state) {
            double const seconds = bench::seconds([&] { masters.update(optimizer, {2, 1e-3, 1.0}); }), after = probe.bytes_per_s();
            samples.add(bytes / seconds, before, after);
            before = after;
            state.SetIterationTime(seconds);
        }
    });
    samples.show(state, "bytes_per_s");
}

constexpr std::int64_t params = std::int64_t{32} << 20;

using precision::Bf16;
using precision::Fp32;
BENCHMARK_TEMPLATE(update, Bf16, optim::AdamW)
    ->Name("adamw/bf16/params")
    ->Arg(params)
    ->UseManualTime()
    ->Iterations(15)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_TEMPLATE(update, Bf16, optim::Bf16State<optim::AdamW>)
    ->Name("adamw_bf16_state/bf16/params")
    ->Arg(params)
    ->UseManualTime()
    ->Iterations(15)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_TEMPLATE(update, Bf16, optim::Sgd)
    ->Name("sgd/bf16/params")
    ->Arg(params)
    ->UseManualTime()
    ->Iterations(15)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_TEMPLATE(update, Fp32, optim::AdamW)
    ->Name("adamw/fp32/params")
    ->Arg(params)
    ->UseManualTime()
    ->Iterations(15)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
