// Kernels that memory bounds: norms, activations, the sum of a residual, embedding, rotation of queries and keys, sums of squares,
// conversions; N tokens, C channels. Over arrays that no cache holds, on all cores, each sample between two runs of a probe that adds to a
// large array in place. Counters, medians: bytes_per_s (each element that is read or written once, counted once) and of_peak, the ratio to
// the bytes that the probe moves. Small ones, as in shakespeare-cpu, lie in caches: two threads in turns with one, and the ratio.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/kernel/activation.hpp"
#include "lockstep/kernel/convert.hpp"
#include "lockstep/kernel/elementwise.hpp"
#include "lockstep/kernel/embedding.hpp"
#include "lockstep/kernel/norm.hpp"
#include "lockstep/kernel/normalize.hpp"
#include "lockstep/kernel/rotary.hpp"
#include "lockstep/runtime/cores.hpp"
#include "operands.hpp"
#include "probe.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::bench;
using benchmark::State;

struct Case {
    std::size_t N, C, vocab, sequence;
    bool        small;

    double elements() const { return static_cast<double>(N * C); }
};
constexpr Case large{65536, 768, 50304, 1024, false}, small{768, 128, 256, 64, true};

template <class Run>
void on_all_cores(State& state, double bytes, Run const& run) {
    MemoryProbe probe;
    Samples     samples;
    runtime::Threads(runtime::threads_for(1)).run([&] {
        run();
        double before = probe.bytes_per_s();
        for (auto _ : state) {
            double const taken = seconds(run), after = probe.bytes_per_s();
            samples.add(bytes / taken, before, after);
            before = after;
            state.SetIterationTime(taken);
        }
    });
    samples.show(state, "bytes_per_s");
}

template <class Run>
void on_two_threads(State& state, double bytes, Run const& run) {
    Samples samples;
    runtime::Threads(2).run([&] {
        std::size_t const runs   = runs_of_a_sample(run);
        double const      work   = static_cast<double>(runs) * bytes;
        auto const        sample = [&] {
            for (std::size_t i = 0; i < runs; ++i) run();
        };
        while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(runs))) {
            double const alone = seconds_on_one_thread(sample);
            run();  // wakes the other thread
            double const taken = seconds(sample);
            samples.add(work / taken);
            samples.compare(work / alone);
            state.SetIterationTime(taken);
        }
    });
    samples.show(state, "bytes_per_s");
}

template <class Run>
void stream(State& state, Case const& c, double bytes, Run const& run) {
    c.small ? on_two_threads(state, bytes, run) : on_all_cores(state, bytes, run);
}

/// Parameters of a norm, and what it saves for backward.
template <class T>
class NormOperands {
public:
    explicit NormOperands(Case const& c) : weights_(2, c.C, 4), saved_(2, c.N, 5), gradients_(2, c.C, 6) {}

    tensor::View<T const, 1> gamma() const { return row<T const>(weights_, 0); }
    tensor::View<T const, 1> beta() const { return row<T const>(weights_, 1); }
    tensor::View<float, 1>   mean() const { return row<float>(saved_, 0); }
    tensor::View<float, 1>   rstd() const { return row<float>(saved_, 1); }
    tensor::View<float, 1>   dgamma() const { return row<float>(gradients_, 0); }
    tensor::View<float, 1>   dbeta() const { return row<float>(gradients_, 1); }

private:
    template <class Element, class Stored>
    static tensor::View<Element, 1> row(Activations<Stored> const& from, std::size_t index) {
        return {from.view().row(index).data(), {from.view().extent(1)}};
    }

    Activations<T>     weights_;
    Activations<float> saved_, gradients_;
};

template <class T>
void layernorm_forward(State& state, Case const& c) {
    Activations<T> const  x(c.N, c.C, 1), y(c.N, c.C, 2);
    NormOperands<T> const p(c);
    stream(state, c, 2 * sizeof(T) * c.elements(),
           [&] { kernel::layernorm_forward(x.view(), p.gamma(), p.beta(), 1e-5, y.view(), p.mean(), p.rstd()); });
}

template <class T>
void layernorm_backward(State& state, Case const& c) {
    Activations<T> const  x(c.N, c.C, 1), dx(c.N, c.C, 2), dy(c.N, c.C, 3);
    NormOperands<T> const p(c);
    stream(state, c, 3 * sizeof(T) * c.elements(),
           [&] { kernel::layernorm_backward(dy.view(), x.view(), p.gamma(), p.mean(), p.rstd(), dx.view(), p.dgamma(), p.dbeta()); });
}

template <class T>
void rmsnorm_forward(State& state, Case const& c) {
    Activations<T> const  x(c.N, c.C, 1), y(c.N, c.C, 2);
    NormOperands<T> const p(c);
    stream(state, c, 2 * sizeof(T) * c.elements(), [&] { kernel::rmsnorm_forward(x.view(), p.gamma(), 1e-5, y.view(), p.rstd()); });
}

template <class T>
void rmsnorm_backward(State& state, Case const& c) {
    Activations<T> const  x(c.N, c.C, 1), dx(c.N, c.C, 2), dy(c.N, c.C, 3);
    NormOperands<T> const p(c);
    stream(state, c, 3 * sizeof(T) * c.elements(),
           [&] { kernel::rmsnorm_backward(dy.view(), x.view(), p.gamma(), p.rstd(), dx.view(), p.dgamma()); });
}

template <class T>
void gelu_forward(State& state, Case const& c) {
    Activations<T> const x(c.N, c.C, 1), y(c.N, c.C, 2);
    stream(state, c, 2 * sizeof(T) * c.elements(), [&] { kernel::gelu_forward(x.view(), y.view()); });
}

template <class T>
void gelu_backward(State& state, Case const& c) {
    Activations<T> const x(c.N, c.C, 1), dx(c.N, c.C, 2), dy(c.N, c.C, 3);
    stream(state, c, 3 * sizeof(T) * c.elements(), [&] { kernel::gelu_backward(x.view(), dy.view(), dx.view()); });
}

/// Gate and up, side by side, are C columns.
template <class T>
void swiglu_forward(State& state, Case const& c) {
    Activations<T> const x(c.N, c.C, 1), y(c.N, c.C / 2, 2);
    stream(state, c, 1.5 * sizeof(T) * c.elements(), [&] { kernel::swiglu_forward(x.view(), y.view()); });
}

template <class T>
void swiglu_backward(State& state, Case const& c) {
    Activations<T> const x(c.N, c.C, 1), dx(c.N, c.C, 2), dy(c.N, c.C / 2, 3);
    stream(state, c, 2.5 * sizeof(T) * c.elements(), [&] { kernel::swiglu_backward(x.view(), dy.view(), dx.view()); });
}

template <class T>
void residual_add(State& state, Case const& c) {
    Activations<T> const x(c.N, c.C, 1), y(c.N, c.C, 2);
    stream(state, c, 3 * sizeof(T) * c.elements(), [&] { kernel::add(x.view(), y.view()); });
}

std::vector<std::int32_t> random_tokens(Case const& c) {
    std::vector<std::int32_t> tokens(c.N);
    for (std::size_t n = 0; n < c.N; ++n) tokens[n] = static_cast<std::int32_t>(random_bits({1, 1, 0}, n) % c.vocab);
    return tokens;
}

/// Positions are in caches, rows of the table are not.
template <class T>
void embedding_forward(State& state, Case const& c) {
    auto const           tokens = random_tokens(c);
    Weight<T> const      table(c.vocab, c.C), positions(c.sequence, c.C);
    Activations<T> const y(c.N, c.C, 1);
    stream(state, c, 2 * sizeof(T) * c.elements(),
           [&] { kernel::embedding_forward(tokens, table.for_forward(), positions.for_forward(), c.sequence, y.view()); });
}

template <class T>
void embedding_backward(State& state, Case const& c) {
    auto const           tokens = random_tokens(c);
    Weight<T> const      table(c.vocab, c.C), positions(c.sequence, c.C);
    Activations<T> const dy(c.N, c.C, 1);
    stream(state, c, (sizeof(T) + 2 * sizeof(float)) * c.elements(),
           [&] { kernel::embedding_backward(tokens, dy.view(), table.gradient(), positions.gradient(), c.sequence); });
}

/// Of the columns, a third each for queries, keys and values; values stay as they are.
template <class T>
void rotary(State& state, Case const& c) {
    std::size_t const            head = c.small ? 16 : 64, heads = c.C / 3 / head;
    kernel::AttentionShape const shape{
        .batch = c.N / c.sequence, .sequence = c.sequence, .heads = heads, .kv_heads = heads, .head_size = head};
    Activations<T> const qkv(c.N, shape.qkv_columns(), 1);
    double const         elements = static_cast<double>(c.N * 2 * heads * head);
    stream(state, c, 2 * sizeof(T) * elements, [&] { kernel::rotary(shape, qkv.view(), 10000); });
}

/// Of gradients, which are fp32, summed row by row.
template <class T>
void sum_of_squares(State& state, Case const& c) {
    Buffer<T> const values(c.N * c.C);
    for (std::size_t i = 0; i < c.N * c.C; ++i) values.get()[i] = static_cast<T>(normal(i));
    stream(state, c, sizeof(T) * c.elements(),
           [&] { benchmark::DoNotOptimize(kernel::sum_of_squares(std::span<T const>(values.get(), c.N * c.C), c.C)); });
}

template <class From, class To>
void convert(State& state, Case const& c) {
    Buffer<From> const from(c.N * c.C);
    Buffer<To> const   to(c.N * c.C);
    for (std::size_t i = 0; i < c.N * c.C; ++i) from.get()[i] = static_cast<From>(normal(i));
    stream(state, c, (sizeof(From) + sizeof(To)) * c.elements(), [&] {
        runtime::parallel_for(c.N, c.C, [&](std::size_t n) {
            kernel::convert_block(std::span<From const>(from.get() + n * c.C, c.C), std::span<To>(to.get() + n * c.C, c.C));
        });
    });
}

void add(std::string const& name, void (*run)(State&, Case const&), Case const& c) {
    std::string const all   = name + "/N:" + std::to_string(c.N) + "/C:" + std::to_string(c.C) + (c.small ? "/threads:2" : "");
    auto* const       added = benchmark::RegisterBenchmark(all.c_str(), run, c)->UseManualTime();
    c.small ? added->Unit(benchmark::kMicrosecond) : added->Iterations(15)->Unit(benchmark::kMillisecond);
}

template <class T>
void add_all(Case const& c) {
    std::string const type = std::string("/") + type_name<T>;
    add("layernorm/forward" + type, layernorm_forward<T>, c);
    add("layernorm/backward" + type, layernorm_backward<T>, c);
    add("rmsnorm/forward" + type, rmsnorm_forward<T>, c);
    add("rmsnorm/backward" + type, rmsnorm_backward<T>, c);
    add("gelu/forward" + type, gelu_forward<T>, c);
    add("gelu/backward" + type, gelu_backward<T>, c);
    add("swiglu/forward" + type, swiglu_forward<T>, c);
    add("swiglu/backward" + type, swiglu_backward<T>, c);
    add("residual_add" + type, residual_add<T>, c);
    add("embedding/forward" + type, embedding_forward<T>, c);
    add("embedding/backward" + type, embedding_backward<T>, c);
    add("rotary" + type, rotary<T>, c);
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    for (Case const& c : {large, small}) {
        add_all<bfloat16>(c);
        add_all<float>(c);
        add("sum_of_squares/fp32", sum_of_squares<float>, c);
        add("convert/fp32_to_bf16", convert<float, bfloat16>, c);
        add("convert/bf16_to_fp32", convert<bfloat16, float>, c);
    }
    benchmark::RunSpecifiedBenchmarks();
}
