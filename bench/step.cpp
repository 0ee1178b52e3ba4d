// Whole training steps in bf16 with AdamW on one rank and all its cores: forward, backward, update. A sample is one step, or as many as
// fill half a second, between two runs of the probe of the compute type on the same threads, because the clock drifts: not each step of a
// millisecond, since after a probe, which needs no memory, the memory system takes some 10 ms to come back to its speed. Counters, medians
// over the samples: tokens_per_s, flop_per_s (plan::flops_per_token) and of_peak, the ratio to the probe. Tokens and initial weights are
// random.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "lockstep/kernel/peak.hpp"
#include "lockstep/nn/gpt2.hpp"
#include "lockstep/optim/adamw.hpp"
#include "lockstep/plan/flops.hpp"
#include "lockstep/precision/mixed.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "lockstep/train/trainer.hpp"
#include "probe.hpp"

namespace {

using namespace lockstep;
using Model = nn::Gpt2<tensor::ArenaStorage>;
using Step  = Trainer<Model, precision::Bf16, optim::AdamW, parallel::Single>;

void step(benchmark::State& state, state::ModelSizes const& sizes, std::size_t batch, std::size_t micro_batch) {
    Step                     trainer(sizes, {.weight_decay = 0.1}, {.micro_batch = micro_batch});
    runtime::Threads         threads(runtime::threads_for(1));
    std::size_t const        tokens = batch * sizes.sequence;
    bench::RandomBatch const random(batch, sizes);
    data::Batch const        data  = random.view();
    auto const               probe = [&] { return threads.run([] { return kernel::measure_peak_flops<precision::bfloat16>(); }); };
    double const             flop  = plan::flops_per_token(sizes, sizes.sequence) * static_cast<double>(tokens);
    bench::Samples           samples;
    StepResult const         warm   = trainer.step(data, 1e-4);
    double const             once   = bench::seconds([&] { trainer.step(data, 1e-4); });
    std::size_t const        steps  = static_cast<std::size_t>(std::max(1.0, 0.5 / once));
    double                   before = probe();
    for (auto _ : state) {
        double const seconds = bench::seconds([&] {
                                   for (std::size_t i = 0; i < steps; ++i) trainer.step(data, 1e-4);
                               }) /
                               static_cast<double>(steps);
        double const after = probe();
        samples.add(flop / seconds, before, after);
        before = after;
        state.SetIterationTime(seconds);
    }
    samples.show(state, "flop_per_s");
    state.counters["tokens_per_s"] = state.counters["flop_per_s"] / flop * static_cast<double>(tokens);
    state.counters["peak_bytes"]   = static_cast<double>(warm.memory.held.total);
}

constexpr state::ModelSizes shakespeare{.layers = 6, .heads = 6, .kv_heads = 6, .dim = 384, .ffn = 1536, .vocab = 256, .sequence = 256};

BENCHMARK_CAPTURE(step, shakespeare - cpu / B : 12 / T : 64, bench::shakespeare_cpu, 12, 12)
    ->Name("step/shakespeare-cpu/B:12/T:64")
    ->UseManualTime()
    ->Iterations(7)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, shakespeare / B : 64 / T : 256, shakespeare, 64, 16)
    ->Name("step/shakespeare/B:64/T:256")
    ->UseManualTime()
    ->Iterations(7)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, gpt2 - 124m / B : 4 / T : 1024, nn::gpt2_124m, 4, 4)
    ->Name("step/gpt2-124m/B:4/T:1024")
    ->UseManualTime()
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
