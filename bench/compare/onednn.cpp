// Products of a linear layer: ours against oneDNN's, one thread each, on the same shapes in turns, in bf16 where oneDNN has it on this
// machine, and in fp32. oneDNN may choose the layout of the weights (its fastest way), which it does not have to pay for here; ours reads
// the copies that the update writes.
// Counters, medians: flop_per_s, of_peak (ratio to a loop of multiply-adds between registers of the unit in use, timed before and after:
// core_flop_per_s), theirs_flop_per_s, and ratio = ours / theirs.
// M tokens, N outputs, K inputs for forward and input gradient; for the weight gradient the result is M x N, summed over K tokens.

#include <benchmark/benchmark.h>

#include <omp.h>
#include <dnnl.hpp>

#include <concepts>
#include <cstdio>
#include <string>
#include <unordered_map>

#include "lockstep/kernel/gemm.hpp"
#include "operands.hpp"
#include "probe.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::bench;

struct Sizes {
    std::size_t M, N, K;
};

using Type = dnnl::memory::data_type;
using Tag  = dnnl::memory::format_tag;

template <class T>
constexpr Type type_of = std::same_as<T, float> ? Type::f32 : Type::bf16;

/// What oneDNN calls c (M,N) = a (M,K) b (K,N), b in the layout that it likes best. Throws dnnl::error where it has no such product.
template <class T>
dnnl::matmul::primitive_desc described(dnnl::engine const& engine, Sizes s, Tag left, Tag right, Type result) {
    auto const m = static_cast<dnnl::memory::dim>(s.M), n = static_cast<dnnl::memory::dim>(s.N), k = static_cast<dnnl::memory::dim>(s.K);
    return {dnnl::matmul::desc({{m, k}, type_of<T>, left}, {{k, n}, type_of<T>, right}, {{m, n}, result, Tag::ab}), engine};
}

/// The product by oneDNN, operands random.
template <class T>
class Theirs {
public:
    Theirs(Sizes s, Tag left, Tag right, Type result) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
        auto const what = described<T>(engine_, s, left, right, result);
        product_        = dnnl::matmul(what);
        arguments_      = {{DNNL_ARG_SRC, random(what.src_desc(), 1)},
                           {DNNL_ARG_WEIGHTS, random(what.weights_desc(), 2)},
                           {DNNL_ARG_DST, dnnl::memory(what.dst_desc(), engine_)}};
    }
    void run() {
        product_.execute(stream_, arguments_);
        stream_.wait();
    }

private:
    dnnl::memory random(dnnl::memory::desc const& what, std::size_t purpose) {
        dnnl::memory memory(what, engine_);
        auto* const  numbers = static_cast<T*>(memory.get_data_handle());
        for (std::size_t i = 0; i < what.get_size() / sizeof(T); ++i) numbers[i] = T(normal(i + 7919 * purpose));
        return memory;
    }

    dnnl::engine                          engine_;
    dnnl::stream                          stream_;
    dnnl::matmul                          product_;
    std::unordered_map<int, dnnl::memory> arguments_;
};

template <class T, class Ours>
void compare(benchmark::State& state, Sizes s, Ours const& ours, Theirs<T>& theirs) {
    double const flop = 2.0 * static_cast<double>(s.M) * static_cast<double>(s.N) * static_cast<double>(s.K);
    Samples      samples;
    runtime::Threads(1).run([&] {
        ours();
        theirs.run();
        for (auto _ : state) {
            double const before = core_flop_per_s<T>(), seconds = processor_seconds(ours), after = core_flop_per_s<T>();
            samples.add(flop / seconds, before, after);
            samples.compare(flop / processor_seconds([&] { theirs.run(); }));
            state.SetIterationTime(seconds);
        }
    });
    samples.show(state, "flop_per_s", "theirs");
}

template <class T>
void forward(benchmark::State& state, Sizes s) {
    Activations<T> const x(s.M, s.K, 1), y(s.M, s.N, 2);
    Weight<T> const      w(s.N, s.K);
    Theirs<T>            theirs(s, Tag::ab, Tag::any, type_of<T>);
    compare(
        state, s, [&] { kernel::gemm_forward(x.view(), w.for_forward(), tensor::View<T const, 1>{}, y.view()); }, theirs);
}

template <class T>
void input_grad(benchmark::State& state, Sizes s) {
    Activations<T> const dy(s.M, s.K, 1), dx(s.M, s.N, 2);
    Weight<T> const      w(s.K, s.N);
    Theirs<T>            theirs(s, Tag::ab, Tag::any, type_of<T>);
    compare(
        state, s, [&] { kernel::gemm_input_grad(dy.view(), w.for_input_grad(), dx.view()); }, theirs);
}

/// Ours adds to the gradient that is there, theirs overwrites it.
template <class T>
void weight_grad(benchmark::State& state, Sizes s) {
    Activations<T> const dy(s.K, s.M, 1), x(s.K, s.N, 2);
    Weight<T> const      w(s.M, s.N);
    Theirs<T>            theirs(s, Tag::ba, Tag::ab, Type::f32);
    compare(
        state, s, [&] { kernel::gemm_weight_grad(dy.view(), x.view(), w.gradient(), {}); }, theirs);
}

/// True where oneDNN has the three products on this machine.
template <class T>
bool they_have() {
    dnnl::engine const engine(dnnl::engine::kind::cpu, 0);
    try {
        described<T>(engine, {32, 32, 32}, Tag::ab, Tag::any, type_of<T>);
        described<T>(engine, {32, 32, 32}, Tag::ba, Tag::ab, Type::f32);
        return true;
    } catch (dnnl::error const&) {
        return false;
    }
}

template <class T>
void add(std::string const& name, void (*run)(benchmark::State&, Sizes), Sizes s) {
    std::string const sizes = "/M:" + std::to_string(s.M) + "/N:" + std::to_string(s.N) + "/K:" + std::to_string(s.K);
    benchmark::RegisterBenchmark(("onednn/" + name + "/" + type_name<T> + sizes).c_str(), run, s)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
}

template <class T>
void add_all() {
    if (!they_have<T>()) {
        std::printf("oneDNN has no products in %s on this machine\n", type_name<T>);
        return;
    }
    for (Sizes s : {Sizes{1024, 768, 768}, Sizes{1024, 3072, 768}, Sizes{1024, 768, 3072}}) {
        add<T>("gemm_forward", forward<T>, s);
        add<T>("gemm_input_grad", input_grad<T>, s);
    }
    for (Sizes s : {Sizes{768, 768, 1024}, Sizes{3072, 768, 1024}, Sizes{768, 3072, 1024}}) add<T>("gemm_weight_grad", weight_grad<T>, s);
}

}  // namespace

int main(int argc, char** argv) {
    omp_set_num_threads(1);  // of oneDNN
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    add_all<bfloat16>();
    add_all<float>();
    benchmark::RunSpecifiedBenchmarks();
}
