// Attention on tiles, forward and backward. FLOPs are counted on the half of the scores that causality leaves, the share of the peak is
// the ratio to TileProbe, run in the same stretch of time.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/kernel/arch/amx_attention.hpp"
#include "lockstep/kernel/arch/amx_attention_backward.hpp"
#include "lockstep/kernel/arch/cpu_features.hpp"
#include "lockstep/kernel/attention_shape.hpp"
#include "lockstep/kernel/tile_peak.hpp"
#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/tensor/booked_memory.hpp"
#include "probe.hpp"

namespace {

using namespace lockstep;
using kernel::AttentionDropout;
using kernel::AttentionShape;
using precision::bfloat16;

#if defined(__x86_64__) && defined(__GNUC__)

struct Case {
    AttentionShape shape;
    float          probability;
};

struct Tensors {
    explicit Tensors(AttentionShape s)
        : memory((2 * s.rows() * s.qkv_columns() + 2 * s.rows() * s.out_columns()) * sizeof(bfloat16), observe::Category::activations),
          lse_data(s.batch * s.heads * s.sequence) {
        auto*      at   = reinterpret_cast<bfloat16*>(memory.data());
        auto const take = [&](std::size_t columns) {
            tensor::View<bfloat16, 2> const view(at, {s.rows(), columns});
            for (std::size_t i = 0; i < view.size(); ++i) at[i] = bfloat16(static_cast<float>(random_normal({1, 1, 0}, i)));
            at += view.size();
            return view;
        };
        qkv  = take(s.qkv_columns());
        dqkv = take(s.qkv_columns());
        out  = take(s.out_columns());
        dout = take(s.out_columns());
        lse  = {lse_data.data(), {s.batch * s.heads, s.sequence}};
    }
    tensor::BookedBlock       memory;
    std::vector<float>        lse_data;
    tensor::View<bfloat16, 2> qkv, dqkv, out, dout;
    tensor::View<float, 2>    lse;
};

/// Multiply-adds of one product of the size of the scores, twice.
double flop(AttentionShape s, double products) {
    auto const T = static_cast<double>(s.sequence);
    return products * static_cast<double>(s.batch * s.out_columns()) * T * T;
}

template <class Body>
void measure(benchmark::State& state, double work, Body const& body) {
    body();
    double kernel = 0, probe = 0, probes = 0;
    for (auto _ : state) {
        double const time = bench::processor_seconds(body);
        kernel += time;
        while (probe < kernel / 4) {
            probe += bench::processor_seconds([] { benchmark::DoNotOptimize(kernel::TileProbe::run()); });
            ++probes;
        }
        state.SetIterationTime(time);
    }
    double const rate            = work * static_cast<double>(state.iterations()) / kernel;
    state.counters["flop_per_s"] = rate;
    state.counters["of_peak"]    = rate / (probes * kernel::TileProbe::flop / probe);
}

void add(Case c) {
    AttentionShape const s    = c.shape;
    auto const           text = [](char const* key, std::size_t value) { return std::string(key) + std::to_string(value); };
    std::string const    name = text("/bf16/B:", s.batch) + text("/T:", s.sequence) + text("/H:", s.heads) + text("/D:", s.head_size) +
                             (c.probability > 0 ? "/dropout" : "");
    auto const settings = [](benchmark::internal::Benchmark* b) { b->UseManualTime()->Unit(benchmark::kMillisecond); };
    settings(benchmark::RegisterBenchmark(("attention_forward" + name).c_str(), [c](benchmark::State& state) {
        Tensors                x(c.shape);
        AttentionDropout const dropout{.probability = c.probability, .key = {1, 3, 0}};
        measure(state, flop(c.shape, 2), [&] { attention_forward(kernel::arch::amx{}, c.shape, x.qkv, x.out, x.lse, dropout); });
    }));
    settings(benchmark::RegisterBenchmark(("attention_backward" + name).c_str(), [c](benchmark::State& state) {
        Tensors                x(c.shape);
        AttentionDropout const dropout{.probability = c.probability, .key = {1, 3, 0}};
        attention_forward(kernel::arch::amx{}, c.shape, x.qkv, x.out, x.lse, dropout);
        measure(state, flop(c.shape, 5),
                [&] { attention_backward(kernel::arch::amx{}, c.shape, x.qkv, x.out, x.dout, x.lse, x.dqkv, dropout); });
    }));
}

#endif

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
#if defined(__x86_64__) && defined(__GNUC__)
    if (kernel::arch::has_amx())
        for (Case c : {Case{{1, 1024, 12, 12, 64}, 0}, Case{{4, 1024, 12, 12, 64}, 0}, Case{{4, 1024, 12, 12, 64}, 0.1f},
                       Case{{1, 1024, 6, 6, 128}, 0}, Case{{64, 256, 6, 6, 64}, 0}, Case{{12, 64, 4, 4, 32}, 0}})
            add(c);
#endif
    // One thread: the probe runs on one.
    runtime::Threads(1).run([] { benchmark::RunSpecifiedBenchmarks(); });
    benchmark::Shutdown();
}
