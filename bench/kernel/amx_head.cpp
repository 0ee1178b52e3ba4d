// Head and cross entropy on tiles, one thread: forward (the loss alone) and backward (loss and gradients). Each sample lies between two
// runs of the tile probe, because the clock drifts. Counters, medians over the samples: flop_per_s, and of_peak, the ratio to the probe. By
// processor time: other processes do not count.

#include <benchmark/benchmark.h>

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/kernel/arch/amx_head.hpp"
#include "lockstep/kernel/tile_peak.hpp"
#include "lockstep/kernel/weight_copies.hpp"
#include "lockstep/tensor/row_stride.hpp"
#include "probe.hpp"

#if LOCKSTEP_TILES

namespace {

using namespace lockstep;
using precision::bfloat16;
namespace arch = kernel::arch;

struct Free {
    void operator()(void* data) const { std::free(data); }
};

/// Memory in large pages, as the buffers of a training step have it.
template <class T>
class Buffer {
public:
    explicit Buffer(std::size_t count) {
        constexpr std::size_t page  = std::size_t{2} << 20;
        std::size_t const     bytes = (count * sizeof(T) + page - 1) / page * page;
        data_.reset(static_cast<T*>(std::aligned_alloc(page, bytes)));
        madvise(data_.get(), bytes, MADV_HUGEPAGE);
        std::fill_n(reinterpret_cast<std::byte*>(data_.get()), bytes, std::byte{0});
    }
    T* get() const { return data_.get(); }

private:
    std::unique_ptr<T, Free> data_;
};

/// Normally distributed numbers; a prime number of them, so that rows and columns differ.
float normal(std::size_t i) {
    static std::vector<float> const table = [] {
        std::vector<float> values(65521);
        for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(random_normal({1, 1, 0}, k));
        return values;
    }();
    return table[i % table.size()];
}

/// N tokens, V vocabulary, C channels.
struct Sizes {
    std::size_t N, V, C;
};

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

/// A head with weights like those of a trained model: logits of some units.
struct Case {
    Sizes                     s;
    std::size_t               stride;
    state::MatrixMap          map;
    Buffer<float>             gradient;
    Buffer<bfloat16>          forward, backward, h, dh;
    std::vector<std::int32_t> labels;
    std::vector<float>        loss, lse;

    explicit Case(Sizes sizes)
        : s(sizes),
          stride(tensor::row_stride(s.C, sizeof(bfloat16))),
          map(s.V, s.C, kernel::packed_layout),
          gradient(map.size()),
          forward(map.size()),
          backward(map.size()),
          h(s.N * stride),
          dh(s.N * stride),
          labels(s.N),
          loss(s.N),
          lse(s.N) {
        for (std::size_t r = 0; r < s.V; ++r)
            for (std::size_t c = 0; c < s.C; ++c) gradient.get()[map(r, c)] = 0.05f * normal(r * s.C + c);
        kernel::write_weight_copies<float, bfloat16>(true, {gradient.get(), map.size()}, {forward.get(), map.size()},
                                                     {backward.get(), map.size()});
        for (std::size_t i = 0; i < s.N * stride; ++i) h.get()[i] = bfloat16(normal(i + 7919));
        for (std::size_t n = 0; n < s.N; ++n) labels[n] = static_cast<std::int32_t>(7919 * n % s.V);
    }

    arch::ForwardWeights   w() const { return arch::ForwardWeights({forward.get(), map.reordered(state::TileOrder::column_pairs)}); }
    arch::InputGradWeights w_backward() const {
        return arch::InputGradWeights({backward.get(), map.reordered(state::TileOrder::row_pairs)});
    }
    tensor::View<bfloat16, 2> rows(Buffer<bfloat16> const& of, std::size_t begin, std::size_t end) const {
        return {of.get() + begin * stride, {end - begin, s.C}, {stride, 1}};
    }
};

enum class Part { forward, backward };

void run_head(benchmark::State& state, Sizes s, std::size_t chunk, Part part) {
    Case                   c(s);
    Buffer<bfloat16> const memory(arch::ExponentialBlocks::elements(chunk, s.V));
    auto const             run = [&] {
        for (std::size_t begin = 0; begin < s.N; begin += chunk) {
            std::size_t const            end = std::min(s.N, begin + chunk), rows = end - begin;
            auto const                   labels = std::span<std::int32_t const>(c.labels).subspan(begin, rows);
            tensor::View<float, 1> const loss(c.loss.data() + begin, {rows}), lse(c.lse.data() + begin, {rows});
            if (part == Part::forward)
                arch::head_loss(arch::amx{}, c.rows(c.h, begin, end), c.w(), labels, loss, lse);
            else
                arch::head_loss_backward(arch::amx{}, c.rows(c.h, begin, end), c.w(), c.w_backward(), labels, 1e-3f, loss, lse,
                                                     {c.gradient.get(), c.map}, c.rows(c.dh, begin, end), memory.get());
        }
    };
    double const flop =
        (part == Part::forward ? 2.0 : 6.0) * static_cast<double>(s.N) * static_cast<double>(s.V) * static_cast<double>(s.C);
    auto const probe = [] {
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

void add(Sizes s, std::size_t chunk) {
    std::string const sizes =
        "/N:" + std::to_string(s.N) + "/V:" + std::to_string(s.V) + "/C:" + std::to_string(s.C) + "/chunk:" + std::to_string(chunk);
    for (auto [name, part] : {std::pair{"head_loss/forward", Part::forward}, std::pair{"head_loss/backward", Part::backward}})
        benchmark::RegisterBenchmark((name + sizes).c_str(), run_head, s, chunk, part)->UseManualTime()->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    if (!arch::has_amx()) {
        std::puts("skipped: this machine has no tiles");
        return 0;
    }
    for (std::size_t chunk : {512u, 640u, 1024u}) add({1024, 50304, 768}, chunk);
    add({1024, 65, 384}, 1024);
    add({1024, 256, 128}, 1024);
    benchmark::RunSpecifiedBenchmarks();
}

#else
int main() {}
#endif
