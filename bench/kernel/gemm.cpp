// Products of a linear layer, beside the rate of multiply-adds between registers measured in the same run.
// Counters: flop_per_s, the mean by wall clock; of_peak, rate of the kernel / (rate of the probe on one core x threads).
// With one thread both rates of of_peak are means by processor time, so that other processes do not count; with several
// threads the kernel's is the best by wall clock, which means something on a quiet machine only.

#include <benchmark/benchmark.h>

#include <algorithm>

#include <string>
#include <vector>

#include "lockstep/kernel/gemm.hpp"
#include "probe.hpp"

namespace {

using namespace lockstep;
using precision::bfloat16;

struct Sizes {
    std::size_t M, N, K;
};
enum class Form { forward, input_grad, weight_grad };

template <class T>
std::vector<T> numbers(std::size_t count) {
    std::vector<T> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = T(static_cast<float>(i % 17) * 0.125f - 1.0f);
    return values;
}

template <class T, Form form>
void product(benchmark::State& state, Sizes sizes, int threads) {
    auto const [M, N, K] = sizes;
    auto x = numbers<T>(N * K), w = numbers<T>(M * K), y = numbers<T>(N * M);
    auto bias = numbers<T>(M);
    auto dw   = numbers<float>(M * K);

    tensor::View<T, 2> const   x_view(x.data(), {N, K}), y_view(y.data(), {N, M});
    tensor::View<T, 1> const   bias_view(bias.data(), {M});
    state::Matrix<T> const     weight{w.data(), {M, K}};
    state::Matrix<float> const weight_grad{dw.data(), {M, K}};

    double const     flop = 2.0 * static_cast<double>(M) * static_cast<double>(N) * static_cast<double>(K);
    double           best = 1e9, processor_sum = 0;  // seconds
    bench::PeakMeter probe;
    runtime::Threads team(threads);
    team.run([&] {
        for (auto _ : state) {
            auto const run = [&] {
                if constexpr (form == Form::forward) kernel::gemm_forward(x_view, weight, bias_view, y_view);
                if constexpr (form == Form::input_grad) kernel::gemm_input_grad(y_view, weight, x_view);
                if constexpr (form == Form::weight_grad) kernel::gemm_weight_grad(y_view, x_view, weight_grad, {});
            };
            double       processor = 0;
            double const wall      = bench::seconds([&] { processor = bench::processor_seconds(run); });
            state.SetIterationTime(wall);
            best = std::min(best, wall);
            processor_sum += processor;
            probe.keep_up_with(processor_sum);
        }
    });
    float result = probe.result() + dw[0] + static_cast<float>(y[0]) + static_cast<float>(x[0]);
    benchmark::DoNotOptimize(result);
    state.counters["flop_per_s"] = benchmark::Counter(flop, benchmark::Counter::kIsIterationInvariantRate);
    double const rate            = threads == 1 ? flop * static_cast<double>(state.iterations()) / processor_sum : flop / best;
    state.counters["of_peak"]    = rate / (probe.flop_per_s() * threads);
}

template <class T>
void add(std::string const& type, Sizes sizes, int threads) {
    std::string const suffix = "/" + type + "/M:" + std::to_string(sizes.M) + "/N:" + std::to_string(sizes.N) +
                               "/K:" + std::to_string(sizes.K) + (threads > 1 ? "/threads:" + std::to_string(threads) : "");
    auto const one = [&](char const* name, auto* body) {
        benchmark::RegisterBenchmark((name + suffix).c_str(), body, sizes, threads)->UseManualTime()->Unit(benchmark::kMicrosecond);
    };
    one("gemm_forward", product<T, Form::forward>);
    one("gemm_input_grad", product<T, Form::input_grad>);
    one("gemm_weight_grad", product<T, Form::weight_grad>);
}

}  // namespace

int main(int argc, char** argv) {
    for (int threads : {1, 2}) {
        for (Sizes sizes : {Sizes{1024, 1024, 1024}, Sizes{384, 768, 128}, Sizes{3072, 1024, 768}, Sizes{60, 12, 60}}) {
            add<float>("fp32", sizes, threads);
            add<bfloat16>("bf16", sizes, threads);
        }
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
}
