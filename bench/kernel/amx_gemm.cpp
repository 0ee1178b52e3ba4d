// Products of a linear layer on tiles, one thread. Each sample of a kernel lies between two runs of the tile probe, because the clock
// drifts. Counters, medians over the samples: flop_per_s, and of_peak, the ratio to the probe. By processor time: other processes do not
// count.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "lockstep/kernel/arch/amx_gemm.hpp"
#include "lockstep/kernel/arch/amx_weight_grad.hpp"
#include "lockstep/kernel/tile_peak.hpp"
#include "operands.hpp"
#include "probe.hpp"

#if defined(__x86_64__) && defined(__GNUC__)

namespace {

using namespace lockstep;
using namespace lockstep::bench;
namespace arch = kernel::arch;

/// The product that is measured: its result is M x N, K is what is summed. Tokens are M, for the weight gradient K.
struct Sizes {
    std::size_t M, N, K;
};

template <class Run>
void measure(benchmark::State& state, Sizes s, Run run) {
    double const flop  = 2.0 * static_cast<double>(s.M) * static_cast<double>(s.N) * static_cast<double>(s.K);
    auto const   probe = [] {
        return kernel::TileProbe::flop / bench::processor_seconds([] { benchmark::DoNotOptimize(kernel::TileProbe::run()); });
    };
    std::vector<double> rates, ratios;
    runtime::Threads(1).run([&] {
        run();
        double before = probe();
        for (auto _ : state) {
            double const seconds = bench::processor_seconds(run), after = probe();
            rates.push_back(flop / seconds);
            ratios.push_back(rates.back() / (0.5 * (before + after)));
            before = after;
            state.SetIterationTime(seconds);
        }
    });
    state.counters["flop_per_s"] = median(rates);
    state.counters["of_peak"]    = median(ratios);
}

enum class Form { forward, forward_gelu, input_grad, input_grad_gelu, weight_grad };

template <class Out, Form form>
void product(benchmark::State& state, Sizes s, arch::Stores stores) {
    // Tokens, inputs and outputs of the layer; the product that is measured has the sizes of its name.
    std::size_t const tokens  = form == Form::weight_grad ? s.K : s.M;
    std::size_t const outputs = form == Form::input_grad || form == Form::input_grad_gelu ? s.K : form == Form::weight_grad ? s.M : s.N;
    std::size_t const inputs  = form == Form::input_grad || form == Form::input_grad_gelu ? s.N : form == Form::weight_grad ? s.N : s.K;
    Activations<bfloat16> const     x(tokens, inputs, 1), dy(tokens, outputs, 2), beside(tokens, std::max(inputs, outputs), 3);
    Activations<Out> const          y(tokens, outputs, 4), dx(tokens, inputs, 5);
    Weight const                    w(outputs, inputs);
    Buffer<float> const             bias(outputs);
    tensor::View<float, 1> const    b(bias.get(), {outputs});
    arch::ForwardWeights const      forward(w.for_forward());
    arch::InputGradWeights const    backward(w.for_input_grad());
    tensor::View<bfloat16, 2> const beside_y = beside.view().columns(0, outputs), beside_x = beside.view().columns(0, inputs);
    measure(state, s, [&] {
        if constexpr (form == Form::forward) arch::gemm_forward<float>(arch::amx{}, x.view(), forward, b, y.view(), stores);
        if constexpr (form == Form::forward_gelu)
            arch::gemm_forward_gelu<float>(arch::amx{}, x.view(), forward, b, beside_y, y.view(), stores);
        if constexpr (form == Form::input_grad) arch::gemm_input_grad(arch::amx{}, dy.view(), backward, dx.view(), stores);
        if constexpr (form == Form::input_grad_gelu)
            arch::gemm_input_grad_gelu(arch::amx{}, dy.view(), backward, beside_x, dx.view(), stores);
        if constexpr (form == Form::weight_grad) arch::gemm_weight_grad(arch::amx{}, dy.view(), x.view(), {w.masters.get(), w.map}, b);
    });
}

template <class Out, Form form>
void add(std::string const& name, Sizes s, arch::Stores stores = arch::Stores::by_size) {
    std::string const sizes = "/M:" + std::to_string(s.M) + "/N:" + std::to_string(s.N) + "/K:" + std::to_string(s.K);
    benchmark::RegisterBenchmark((name + sizes).c_str(), product<Out, form>, s, stores)->UseManualTime()->Unit(benchmark::kMicrosecond);
}

void add_all(Sizes s) {
    add<bfloat16, Form::forward>("gemm_forward/bf16", s);
    add<bfloat16, Form::forward>("gemm_forward/bf16_cached", s, arch::Stores::cached);
    add<float, Form::forward>("gemm_forward/fp32", s);
    add<bfloat16, Form::input_grad>("gemm_input_grad/bf16", s);
    add<bfloat16, Form::input_grad>("gemm_input_grad/bf16_cached", s, arch::Stores::cached);
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    if (!arch::has_amx()) {
        std::puts("skipped: this machine has no tiles");
        return 0;
    }
    for (Sizes s : {Sizes{1024, 768, 768}, Sizes{1024, 2304, 768}, Sizes{1024, 3072, 768}, Sizes{1024, 768, 3072}, Sizes{4096, 3072, 768}})
        add_all(s);
    add<bfloat16, Form::forward_gelu>("gemm_forward_gelu/bf16", {1024, 3072, 768});
    add<bfloat16, Form::input_grad_gelu>("gemm_input_grad_gelu/bf16", {1024, 3072, 768});
    for (Sizes s : {Sizes{768, 768, 1024}, Sizes{2304, 768, 1024}, Sizes{3072, 768, 1024}, Sizes{768, 3072, 1024}, Sizes{3072, 768, 4096}})
        add<bfloat16, Form::weight_grad>("gemm_weight_grad/bf16", s);
    benchmark::RunSpecifiedBenchmarks();
}

#else
int main() {}
#endif
