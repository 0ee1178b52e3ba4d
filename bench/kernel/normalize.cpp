// Kernels that memory bounds, on all cores: LayerNorm and RMSNorm, forward and backward, and the rotation of queries and keys, over arrays
// that no cache holds. Each sample lies between two runs of a probe that adds to a large array in place. Counters, medians: bytes_per_s
// (each element that is read or written once, counted once) and of_peak, the ratio to the bytes that the probe moves.

#include "lockstep/kernel/normalize.hpp"

#include <string>

#include "lockstep/kernel/rotary.hpp"
#include "lockstep/runtime/cores.hpp"
#include "operands.hpp"
#include "probe.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::bench;

struct Sizes {
    std::size_t N, C;  // tokens, channels
};
enum class Kernel { layernorm_forward, layernorm_backward, rmsnorm_forward, rmsnorm_backward, rotary };

template <class T, Kernel which>
void stream(benchmark::State& state, Sizes s) {
    constexpr std::size_t        head = 64;
    kernel::AttentionShape const shape{.batch = 1, .sequence = s.N, .heads = s.C / 3 / head, .kv_heads = s.C / 3 / head, .head_size = head};
    Activations<T> const         x(s.N, s.C, 1), y(s.N, s.C, 2), dy(s.N, s.C, 3), weights(2, s.C, 4);
    Activations<float> const     statistics(2, s.N, 5), gradients(2, s.C, 6);
    tensor::View<T const, 1> const gamma(weights.view().row(0).data(), {s.C}), beta(weights.view().row(1).data(), {s.C});
    tensor::View<float, 1> const   mean(statistics.view().row(0).data(), {s.N}), rstd(statistics.view().row(1).data(), {s.N});
    tensor::View<float, 1> const   dgamma(gradients.view().row(0).data(), {s.C}), dbeta(gradients.view().row(1).data(), {s.C});
    constexpr bool                 backward = which == Kernel::layernorm_backward || which == Kernel::rmsnorm_backward;
    double const                   elements = static_cast<double>(s.N * s.C) * (backward ? 3 : which == Kernel::rotary ? 4.0 / 3 : 2);
    auto const                     run      = [&] {
        if constexpr (which == Kernel::layernorm_forward) kernel::layernorm_forward(x.view(), gamma, beta, 1e-5, y.view(), mean, rstd);
        if constexpr (which == Kernel::layernorm_backward)
            kernel::layernorm_backward(dy.view(), x.view(), gamma, mean, rstd, y.view(), dgamma, dbeta);
        if constexpr (which == Kernel::rmsnorm_forward) kernel::rmsnorm_forward(x.view(), gamma, 1e-5, y.view(), rstd);
        if constexpr (which == Kernel::rmsnorm_backward) kernel::rmsnorm_backward(dy.view(), x.view(), gamma, rstd, y.view(), dgamma);
        if constexpr (which == Kernel::rotary) kernel::rotary(shape, y.view(), 10000);
    };
    MemoryProbe probe;
    Samples     samples;
    runtime::Threads(runtime::threads_for(1)).run([&] {
        run();
        double before = probe.bytes_per_s();
        for (auto _ : state) {
            double const taken = seconds(run), after = probe.bytes_per_s();
            samples.add(elements * sizeof(T) / taken, before, after);
            before = after;
            state.SetIterationTime(taken);
        }
    });
    samples.show(state, "bytes_per_s");
}

template <class T>
void add(Sizes s) {
    std::string const sizes = std::string("/") + type_name<T> + "/N:" + std::to_string(s.N) + "/C:" + std::to_string(s.C);
    auto const        one   = [&](char const* name, void (*run)(benchmark::State&, Sizes)) {
        benchmark::RegisterBenchmark((name + sizes).c_str(), run, s)->UseManualTime()->Iterations(15)->Unit(benchmark::kMillisecond);
    };
    one("layernorm/forward", stream<T, Kernel::layernorm_forward>);
    one("layernorm/backward", stream<T, Kernel::layernorm_backward>);
    one("rmsnorm/forward", stream<T, Kernel::rmsnorm_forward>);
    one("rmsnorm/backward", stream<T, Kernel::rmsnorm_backward>);
    one("rotary", stream<T, Kernel::rotary>);
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    add<bfloat16>({65536, 768});
    add<float>({65536, 768});
    benchmark::RunSpecifiedBenchmarks();
}
