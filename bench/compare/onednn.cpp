// Products of a linear layer in bf16: ours in tiles against oneDNN's, one thread each, on the same shapes in turns. oneDNN may choose the
// layout of the weights (its fastest way), which it does not have to pay for here; ours reads the copies that the update writes.
// Counters, medians: flop_per_s, of_peak (ratio to the tile probe beside it), theirs_flop_per_s, and ratio = ours / theirs.
// M tokens, N outputs, K inputs for forward and input gradient; for the weight gradient the result is M x N, summed over K tokens.

#include <benchmark/benchmark.h>

#include <omp.h>
#include <dnnl.hpp>

#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/kernel/gemm.hpp"
#include "operands.hpp"
#include "probe.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::bench;

struct Sizes {
    std::size_t M, N, K;
};

/// c (M,N) = a (M,K) b (K,N) by oneDNN, b in the layout that it likes best. Operands random.
class Theirs {
public:
    using Type = dnnl::memory::data_type;
    using Tag  = dnnl::memory::format_tag;

    Theirs(Sizes s, Tag left, Tag right, Type result) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
        auto const m = static_cast<dnnl::memory::dim>(s.M), n = static_cast<dnnl::memory::dim>(s.N),
                   k = static_cast<dnnl::memory::dim>(s.K);
        dnnl::matmul::desc const           what({{m, k}, Type::bf16, left}, {{k, n}, Type::bf16, right}, {{m, n}, result, Tag::ab});
        dnnl::matmul::primitive_desc const described(what, engine_);
        product_   = dnnl::matmul(described);
        arguments_ = {{DNNL_ARG_SRC, random(described.src_desc(), 1)},
                      {DNNL_ARG_WEIGHTS, random(described.weights_desc(), 2)},
                      {DNNL_ARG_DST, dnnl::memory(described.dst_desc(), engine_)}};
    }
    void run() {
        product_.execute(stream_, arguments_);
        stream_.wait();
    }

private:
    dnnl::memory random(dnnl::memory::desc const& described, std::size_t purpose) {
        dnnl::memory memory(described, engine_);
        auto* const  numbers = static_cast<bfloat16*>(memory.get_data_handle());
        for (std::size_t i = 0; i < described.get_size() / sizeof(bfloat16); ++i) numbers[i] = bfloat16(normal(i + 7919 * purpose));
        return memory;
    }

    dnnl::engine                          engine_;
    dnnl::stream                          stream_;
    dnnl::matmul                          product_;
    std::unordered_map<int, dnnl::memory> arguments_;
};

template <class Ours>
void measure(benchmark::State& state, Sizes s, Ours ours, Theirs& theirs) {
    double const        flop = 2.0 * static_cast<double>(s.M) * static_cast<double>(s.N) * static_cast<double>(s.K);
    Samples             samples;
    std::vector<double> their_rates, ratios;
    runtime::Threads(1).run([&] {
        ours();
        theirs.run();
        for (auto _ : state) {
            double const before = core_flop_per_s<bfloat16>(), seconds = processor_seconds(ours), after = core_flop_per_s<bfloat16>();
            double const their_seconds = processor_seconds([&] { theirs.run(); });
            samples.add(flop / seconds, before, after);
            their_rates.push_back(flop / their_seconds);
            ratios.push_back(their_seconds / seconds);
            state.SetIterationTime(seconds);
        }
    });
    samples.show(state, "flop_per_s");
    state.counters["theirs_flop_per_s"] = median(their_rates);
    state.counters["ratio"]             = median(ratios);
}

void forward(benchmark::State& state, Sizes s) {
    Activations<bfloat16> const x(s.M, s.K, 1), y(s.M, s.N, 2);
    Weight<bfloat16> const      w(s.N, s.K);
    Theirs                      theirs(s, Theirs::Tag::ab, Theirs::Tag::any, Theirs::Type::bf16);
    measure(
        state, s, [&] { kernel::gemm_forward(x.view(), w.for_forward(), tensor::View<bfloat16 const, 1>{}, y.view()); }, theirs);
}

void input_grad(benchmark::State& state, Sizes s) {
    Activations<bfloat16> const dy(s.M, s.K, 1), dx(s.M, s.N, 2);
    Weight<bfloat16> const      w(s.K, s.N);
    Theirs                      theirs(s, Theirs::Tag::ab, Theirs::Tag::any, Theirs::Type::bf16);
    measure(
        state, s, [&] { kernel::gemm_input_grad(dy.view(), w.for_input_grad(), dx.view()); }, theirs);
}

/// Ours adds to the gradient that is there, theirs overwrites it.
void weight_grad(benchmark::State& state, Sizes s) {
    Activations<bfloat16> const dy(s.K, s.M, 1), x(s.K, s.N, 2);
    Weight<bfloat16> const      w(s.M, s.N);
    Theirs                      theirs(s, Theirs::Tag::ba, Theirs::Tag::ab, Theirs::Type::f32);
    measure(
        state, s, [&] { kernel::gemm_weight_grad(dy.view(), x.view(), w.gradient(), {}); }, theirs);
}

void add(char const* name, void (*run)(benchmark::State&, Sizes), Sizes s) {
    std::string const sizes = "/M:" + std::to_string(s.M) + "/N:" + std::to_string(s.N) + "/K:" + std::to_string(s.K);
    benchmark::RegisterBenchmark((name + sizes).c_str(), run, s)->UseManualTime()->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
    omp_set_num_threads(1);  // of oneDNN
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    if (!kernel::uses_tiles()) {
        std::puts("skipped: on this machine the kernels for bfloat16 do not compute in tiles");
        return 0;
    }
    for (Sizes s : {Sizes{1024, 768, 768}, Sizes{1024, 3072, 768}, Sizes{1024, 768, 3072}}) {
        add("onednn/gemm_forward/bf16", forward, s);
        add("onednn/gemm_input_grad/bf16", input_grad, s);
    }
    for (Sizes s : {Sizes{768, 768, 1024}, Sizes{3072, 768, 1024}, Sizes{768, 3072, 1024}})
        add("onednn/gemm_weight_grad/bf16", weight_grad, s);
    benchmark::RunSpecifiedBenchmarks();
}
