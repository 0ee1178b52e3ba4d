// Whole training steps in bf16 with AdamW on one rank: forward, backward, update. A sample is one step, or as many as fill half a second,
// between two runs of the probe of the compute type on the same threads, because the clock drifts: not each step of a millisecond, since
// after a probe, which needs no memory, the memory system takes some 10 ms to come back to its speed. On all cores, or on the threads of
// the name. Counters, medians over the samples: tokens_per_s, flop_per_s (plan::flops_per_token) and of_peak, the ratio to the probe; and
// of two steps in a process of their own, peak_bytes, the most that the process held, and ledger_bytes, the arrays that the library
// allocated, touched or not. Tokens and initial weights are random.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

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

constexpr state::ModelSizes shakespeare{.layers = 6, .heads = 6, .kv_heads = 6, .dim = 384, .ffn = 1536, .vocab = 256, .sequence = 256};

constexpr state::ModelSizes with_sequence(state::ModelSizes sizes, std::size_t sequence) {
    sizes.sequence = sequence;
    return sizes;
}

struct Case {
    char const*       name;
    state::ModelSizes sizes;
    std::size_t       batch, micro_batch;
    int               threads, samples;  // threads 0: on all cores
};
Case const cases[]{
    {"step/shakespeare-cpu/B:12/T:64", bench::shakespeare_cpu, 12, 12, 0, 7},
    {"step/shakespeare-cpu/B:12/T:64/threads:1", bench::shakespeare_cpu, 12, 12, 1, 7},
    {"step/shakespeare-cpu/B:12/T:64/threads:2", bench::shakespeare_cpu, 12, 12, 2, 7},
    {"step/shakespeare/B:64/T:256", shakespeare, 64, 16, 0, 7},
    {"step/gpt2-124m/B:4/T:256", with_sequence(nn::gpt2_124m, 256), 4, 4, 0, 5},
    {"step/gpt2-124m/B:4/T:1024", nn::gpt2_124m, 4, 4, 0, 5},
};

TrainerOptions options(Case const& c) { return {.micro_batch = c.micro_batch, .threads = c.threads}; }

struct Peak {
    double process = 0, ledger = 0;  // bytes
};

/// The largest resident set of this process since its program began; getrusage would count what its parent held before.
double peak_resident_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (word == "VmHWM:") {
            double kib = 0;
            status >> kib;
            return 1024 * kib;
        }
    return 0;
}

/// The child's part of `measure_peak`.
void print_peak(Case const& c) {
    Step                     trainer(c.sizes, {.weight_decay = 0.1}, options(c));
    bench::RandomBatch const random(c.batch, c.sizes);
    trainer.step(random.view(), 1e-4);
    StepResult const result = trainer.step(random.view(), 1e-4);
    std::printf("%.0f %zu\n", peak_resident_bytes(), result.memory.held.total);
}

/// Two steps in a process of their own: this program with the name of the case.
Peak measure_peak(Case const& c) {
    Peak        peak;
    auto const  command = "'" + std::filesystem::read_symlink("/proc/self/exe").string() + "' --peak-of=" + c.name;
    FILE* const child   = popen(command.c_str(), "r");
    if (child == nullptr) return peak;
    if (std::fscanf(child, "%lf %lf", &peak.process, &peak.ledger) != 2) peak = {};
    pclose(child);
    return peak;
}

void step(benchmark::State& state, Case const& c) {
    Peak const               peak = measure_peak(c);  // before this process needs memory of its own
    Step                     trainer(c.sizes, {.weight_decay = 0.1}, options(c));
    runtime::Threads         threads(c.threads > 0 ? c.threads : runtime::threads_for(1));
    std::size_t const        tokens = c.batch * c.sizes.sequence;
    bench::RandomBatch const random(c.batch, c.sizes);
    data::Batch const        data  = random.view();
    auto const               probe = [&] { return threads.run([] { return kernel::measure_peak_flops<precision::bfloat16>(); }); };
    double const             flop  = plan::flops_per_token(c.sizes, c.sizes.sequence) * static_cast<double>(tokens);
    bench::Samples           samples;
    trainer.step(data, 1e-4);
    double const      once   = bench::seconds([&] { trainer.step(data, 1e-4); });
    std::size_t const steps  = static_cast<std::size_t>(std::max(1.0, 0.5 / once));
    double            before = probe();
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
    if (peak.process == 0) return;
    state.counters["peak_bytes"]   = peak.process;
    state.counters["ledger_bytes"] = peak.ledger;
}

}  // namespace

int main(int argc, char** argv) {
    if (std::string_view const asked = argc == 2 ? argv[1] : ""; asked.starts_with("--peak-of=")) {
        for (Case const& c : cases)
            if (asked.substr(asked.find('=') + 1) == c.name) print_peak(c);
        return 0;
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    for (Case const& c : cases)
        benchmark::RegisterBenchmark(c.name, step, c)->UseManualTime()->Iterations(c.samples)->Unit(benchmark::kMillisecond);
    benchmark::RunSpecifiedBenchmarks();
}
