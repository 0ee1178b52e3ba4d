// Head and cross entropy by the kernels in use: forward (the loss alone) and backward (loss and gradients), on one thread, small ones on
// two too. N tokens, V vocabulary, C channels. Counters: see bench::measure.

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/kernel/head_loss.hpp"
#include "operands.hpp"
#include "probe.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::bench;

struct Sizes {
    std::size_t N, V, C;
};
enum class Pass { forward, backward };

template <class T, Pass pass>
void head(benchmark::State& state, Sizes s, int threads) {
    Weight<T> const           w(s.V, s.C, 0.05f);  // like those of a trained model: logits of some units
    Activations<T> const      h(s.N, s.C, 1), dh(s.N, s.C, 2);
    std::size_t const         bytes = kernel::head_chunk(s.N, s.V, kernel::logit_storage(w.for_forward())).bytes;
    Buffer<std::byte> const   memory(bytes);
    std::vector<std::int32_t> labels(s.N);
    for (std::size_t n = 0; n < s.N; ++n) labels[n] = static_cast<std::int32_t>(7919 * n % s.V);
    std::vector<float>           losses(s.N), log_sums(s.N);
    tensor::View<float, 1> const loss(losses.data(), {s.N}), lse(log_sums.data(), {s.N});
    std::span<std::byte> const   chunk(memory.get(), bytes);
    double const                 product = 2.0 * static_cast<double>(s.N) * static_cast<double>(s.V) * static_cast<double>(s.C);
    if constexpr (pass == Pass::forward)
        measure<T>(state, product, threads, [&] { kernel::head_loss(h.view(), w.for_forward(), labels, loss, lse, chunk); });
    else
        measure<T>(state, 3 * product, threads, [&] {
            kernel::head_loss_backward(h.view(), w.for_forward(), w.for_input_grad(), labels, 1e-3f, loss, lse, w.gradient(), dh.view(),
                                       chunk);
        });
}

template <class T>
void add(Sizes s, int threads) {
    std::string const sizes = std::string("/") + type_name<T> + "/N:" + std::to_string(s.N) + "/V:" + std::to_string(s.V) +
                              "/C:" + std::to_string(s.C) + (threads > 1 ? "/threads:" + std::to_string(threads) : "");
    auto const one = [&](char const* name, void (*run)(benchmark::State&, Sizes, int)) {
        benchmark::RegisterBenchmark((name + sizes).c_str(), run, s, threads)->UseManualTime()->Unit(benchmark::kMicrosecond);
    };
    one("head_loss/forward", head<T, Pass::forward>);
    one("head_loss/backward", head<T, Pass::backward>);
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    auto const add_both = [](Sizes s, int threads) {
        add<bfloat16>(s, threads);
        add<float>(s, threads);
    };
    add_both({1024, 50304, 768}, 1);
    add<bfloat16>({608, 50304, 768}, 1);  // a chunk of 4096 tokens on tiles
    for (int threads : {1, 2})
        for (Sizes s : {Sizes{1024, 65, 384}, Sizes{1024, 256, 128}}) add_both(s, threads);
    benchmark::RunSpecifiedBenchmarks();
}
