// Attention forward and backward: GFLOP/s counted on the half of the scores that causality leaves.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/kernel/attention.hpp"
#include "lockstep/kernel/rotary.hpp"

namespace {

using namespace lockstep;
using kernel::AttentionDropout;
using kernel::AttentionShape;

template <class T>
struct Buffers {
    explicit Buffers(AttentionShape s)
        : qkv_data(s.rows() * s.qkv_columns()),
          dqkv_data(qkv_data.size()),
          out_data(s.rows() * s.out_columns()),
          dout_data(out_data.size()),
          lse_data(s.rows() * s.heads) {
        for (std::size_t i = 0; i < qkv_data.size(); ++i) qkv_data[i] = T(static_cast<float>(random_normal({1, 1, 0}, i)));
        for (std::size_t i = 0; i < dout_data.size(); ++i) dout_data[i] = T(static_cast<float>(random_normal({1, 2, 0}, i)));
        qkv  = {qkv_data.data(), {s.rows(), s.qkv_columns()}};
        dqkv = {dqkv_data.data(), {s.rows(), s.qkv_columns()}};
        out  = {out_data.data(), {s.rows(), s.out_columns()}};
        dout = {dout_data.data(), {s.rows(), s.out_columns()}};
        lse  = {lse_data.data(), {s.batch * s.heads, s.sequence}};
    }
    std::vector<T>         qkv_data, dqkv_data, out_data, dout_data;
    std::vector<float>     lse_data;
    tensor::View<T, 2>     qkv, dqkv, out, dout;
    tensor::View<float, 2> lse;
};

AttentionShape shape(benchmark::State const& state) {
    auto const at = [&](std::size_t i) { return static_cast<std::size_t>(state.range(i)); };
    return {at(0), at(1), at(2), at(2), at(3)};
}

AttentionDropout drop(benchmark::State const& state) { return {.probability = static_cast<float>(state.range(4)) / 100, .key = {1, 3, 0}}; }

/// Multiply-adds of one product of scores' size, twice.
double flops(AttentionShape s, double products) {
    auto const T = static_cast<double>(s.sequence);
    return products * static_cast<double>(s.batch * s.out_columns()) * T * (T + 1);
}

template <class T>
void forward(benchmark::State& state) {
    AttentionShape const s = shape(state);
    Buffers<T>           x(s);
    for (auto _ : state) kernel::attention_forward(s, x.qkv, x.out, x.lse, drop(state));
    state.counters["flops"] = benchmark::Counter(flops(s, 2), benchmark::Counter::kIsIterationInvariantRate);
}

template <class T>
void backward(benchmark::State& state) {
    AttentionShape const s = shape(state);
    Buffers<T>           x(s);
    kernel::attention_forward(s, x.qkv, x.out, x.lse, drop(state));
    for (auto _ : state) kernel::attention_backward(s, x.qkv, x.out, x.dout, x.lse, x.dqkv, drop(state));
    state.counters["flops"] = benchmark::Counter(flops(s, 5), benchmark::Counter::kIsIterationInvariantRate);
}

template <class T>
void rotate(benchmark::State& state) {
    AttentionShape const s = shape(state);
    Buffers<T>           x(s);
    for (auto _ : state) kernel::rotary(s, x.qkv, 10000);
    state.SetBytesProcessed(state.iterations() *
                            static_cast<std::int64_t>(2 * s.rows() * (s.heads + s.kv_heads) * s.head_size * sizeof(T)));
}

void shapes(benchmark::internal::Benchmark* b) {
    b->ArgNames({"B", "T", "H", "D", "drop%"})->Unit(benchmark::kMillisecond)->UseRealTime();
    b->Args({12, 64, 4, 32, 0})->Args({4, 1024, 12, 64, 0})->Args({4, 1024, 12, 64, 10});
}

BENCHMARK(forward<float>)->Apply(shapes);
BENCHMARK(forward<precision::bfloat16>)->Apply(shapes);
BENCHMARK(backward<float>)->Apply(shapes);
BENCHMARK(backward<precision::bfloat16>)->Apply(shapes);
BENCHMARK(rotate<float>)->Apply(shapes);
BENCHMARK(rotate<precision::bfloat16>)->Apply(shapes);

}  // namespace

BENCHMARK_MAIN();
