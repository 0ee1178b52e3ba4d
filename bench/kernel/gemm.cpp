// Products of a linear layer by the kernels in use, weights as they read them. The result is M x N, and K is summed: tokens are M, for the
// weight gradient K. Counters: see bench::measure.

#include "lockstep/kernel/gemm.hpp"

#include <algorithm>
#include <string>

#include "lockstep/kernel/gemm_gelu.hpp"
#include "operands.hpp"
#include "probe.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::bench;

struct Sizes {
    std::size_t M, N, K;
};
enum class Form { forward, forward_gelu, input_grad, input_grad_gelu, weight_grad };

template <class T, Form form>
void product(benchmark::State& state, Sizes s, int threads) {
    constexpr bool    backward = form == Form::input_grad || form == Form::input_grad_gelu, weight = form == Form::weight_grad;
    std::size_t const tokens  = weight ? s.K : s.M,
                      outputs = backward ? s.K
                                : weight ? s.M
                                         : s.N,
                      inputs  = backward ? s.N
                                : weight ? s.N
                                         : s.K;
    Activations<T> const           x(tokens, inputs, 1), dy(tokens, outputs, 2), beside(tokens, std::max(inputs, outputs), 3);
    Activations<T> const           y(tokens, outputs, 4), dx(tokens, inputs, 5);
    Weight<T> const                w(outputs, inputs);
    Activations<T> const           bias(1, outputs, 6);
    tensor::View<T const, 1> const b(bias.view().data(), {outputs});
    tensor::View<T, 2> const       beside_y = beside.view().columns(0, outputs), beside_x = beside.view().columns(0, inputs);
    double const                   flop = 2.0 * static_cast<double>(s.M) * static_cast<double>(s.N) * static_cast<double>(s.K);
    measure<T>(state, flop, threads, [&] {
        if constexpr (form == Form::forward) kernel::gemm_forward(x.view(), w.for_forward(), b, y.view());
        if constexpr (form == Form::forward_gelu) kernel::gemm_forward_gelu(x.view(), w.for_forward(), b, beside_y, y.view());
        if constexpr (form == Form::input_grad) kernel::gemm_input_grad(dy.view(), w.for_input_grad(), dx.view());
        if constexpr (form == Form::input_grad_gelu) kernel::gemm_input_grad_gelu(dy.view(), w.for_input_grad(), beside_x, dx.view());
        if constexpr (form == Form::weight_grad) kernel::gemm_weight_grad(dy.view(), x.view(), w.gradient(), {});
    });
}

template <class T, Form form>
void add(std::string const& name, Sizes s, int threads) {
    std::string const sizes = std::string("/") + type_name<T> + "/M:" + std::to_string(s.M) + "/N:" + std::to_string(s.N) +
                              "/K:" + std::to_string(s.K) + (threads > 1 ? "/threads:" + std::to_string(threads) : "");
    benchmark::RegisterBenchmark((name + sizes).c_str(), product<T, form>, s, threads)->UseManualTime()->Unit(benchmark::kMicrosecond);
}

template <class T>
void add_all(int threads) {
    for (Sizes s : {Sizes{1024, 768, 768}, Sizes{1024, 2304, 768}, Sizes{1024, 3072, 768}, Sizes{1024, 768, 3072}, Sizes{4096, 3072, 768},
                    Sizes{768, 384, 128}, Sizes{12, 60, 60}}) {
        add<T, Form::forward>("gemm_forward", s, threads);
        add<T, Form::input_grad>("gemm_input_grad", s, threads);
    }
    add<T, Form::forward_gelu>("gemm_forward_gelu", {1024, 3072, 768}, threads);
    add<T, Form::input_grad_gelu>("gemm_input_grad_gelu", {1024, 3072, 768}, threads);
    for (Sizes s : {Sizes{768, 768, 1024}, Sizes{2304, 768, 1024}, Sizes{3072, 768, 1024}, Sizes{768, 3072, 1024}, Sizes{3072, 768, 4096},
                    Sizes{384, 128, 768}, Sizes{60, 60, 12}})
        add<T, Form::weight_grad>("gemm_weight_grad", s, threads);
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    for (int threads : {1, 2}) {
        add_all<bfloat16>(threads);
        add_all<float>(threads);
    }
    benchmark::RunSpecifiedBenchmarks();
}
