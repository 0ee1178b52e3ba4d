// Attention by the kernels in use, forward and backward, on one thread and on two. FLOPs are counted on the half of the scores that
// causality leaves. Counters: see bench::measure.

#include "lockstep/kernel/attention.hpp"

#include <string>

#include "operands.hpp"
#include "probe.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::bench;
using kernel::AttentionDropout;
using kernel::AttentionShape;

struct Case {
    AttentionShape shape;
    float          probability;
};

enum class Pass { forward, backward };

template <class T, Pass pass>
void attention(benchmark::State& state, Case c, int threads) {
    AttentionShape const         s = c.shape;
    Activations<T> const         qkv(s.rows(), s.qkv_columns(), 1), dqkv(s.rows(), s.qkv_columns(), 2);
    Activations<T> const         out(s.rows(), s.out_columns(), 3), dout(s.rows(), s.out_columns(), 4);
    Buffer<float> const          sums(s.batch * s.heads * s.sequence);
    tensor::View<float, 2> const lse(sums.get(), {s.batch * s.heads, s.sequence});
    AttentionDropout const       dropout{.probability = c.probability, .key = {1, 3, 0}};
    double const                 product = static_cast<double>(s.batch * s.out_columns() * s.sequence) * static_cast<double>(s.sequence);
    auto const                   forward = [&] { kernel::attention_forward(s, qkv.view(), out.view(), lse, dropout); };
    if constexpr (pass == Pass::forward) {
        measure<T>(state, 2 * product, threads, forward);
    } else {
        forward();
        measure<T>(state, 5 * product, threads,
                   [&] { kernel::attention_backward(s, qkv.view(), out.view(), dout.view(), lse, dqkv.view(), dropout); });
    }
}

template <class T>
void add(Case c, int threads) {
    AttentionShape const s     = c.shape;
    std::string const    sizes = std::string("/") + type_name<T> + "/B:" + std::to_string(s.batch) + "/T:" + std::to_string(s.sequence) +
                              "/H:" + std::to_string(s.heads) + "/D:" + std::to_string(s.head_size) +
                              (c.probability > 0 ? "/dropout" : "") + (threads > 1 ? "/threads:" + std::to_string(threads) : "");
    auto const one = [&](char const* name, void (*run)(benchmark::State&, Case, int)) {
        benchmark::RegisterBenchmark((name + sizes).c_str(), run, c, threads)->UseManualTime()->Unit(benchmark::kMillisecond);
    };
    one("attention_forward", attention<T, Pass::forward>);
    one("attention_backward", attention<T, Pass::backward>);
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    for (int threads : {1, 2})
        for (Case c : {Case{{1, 1024, 12, 12, 64}, 0}, Case{{4, 1024, 12, 12, 64}, 0}, Case{{4, 1024, 12, 12, 64}, 0.1f},
                       Case{{1, 1024, 6, 6, 128}, 0}, Case{{64, 256, 6, 6, 64}, 0}, Case{{12, 64, 4, 4, 32}, 0}}) {
            add<bfloat16>(c, threads);
            add<float>(c, threads);
        }
    benchmark::RunSpecifiedBenchmarks();
}
