// What the timeline costs, which is always on. timeline/span, timeline/mark: nanoseconds of an event. `ns`: one behind the other;
// `cold_ns`: as in a step, where the caches have been filled with other data since the last event. timeline/step: the shortest step of a
// preset, shakespeare-cpu in bf16 on all cores, and of it the records, milliseconds, and `of_step`, the share that its records take at the
// cold price: at most 0.01. Single records what every step does, Sharded, here on one rank, what a strategy adds. Medians.

#include <benchmark/benchmark.h>

#include <vector>

#include "lockstep/comm/environment.hpp"
#include "lockstep/nn/gpt2.hpp"
#include "lockstep/optim/adamw.hpp"
#include "lockstep/parallel/sharded.hpp"
#include "lockstep/precision/mixed.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "lockstep/train/trainer.hpp"
#include "probe.hpp"

namespace {

using namespace lockstep;

template <class Strategy>
using Step = Trainer<nn::Gpt2<tensor::ArenaStorage>, precision::Bf16, optim::AdamW, Strategy>;

void one_span() { observe::Span const span(observe::Event::forward, 1); }
void one_mark() { observe::mark(observe::Event::memory, 1, 0, 4096); }

/// As in a step: spans are booked.
template <class F>
double booked(F const& f) {
    observe::StepClock clock;
    clock.restart(observe::now());
    observe::BookIn const book(clock);
    return f();
}

/// Nanoseconds of one event behind another.
double hot_ns(void (*event)()) {
    constexpr int       events = 4000;  // a step's clock keeps the changes of so many spans
    std::vector<double> samples;
    for (int i = 0; i < 201; ++i)
        samples.push_back(1e9 / events * booked([&] {
                              return bench::processor_seconds([&] {
                                  for (int e = 0; e < events; ++e) event();
                              });
                          }));
    return bench::median(samples);
}

/// Nanoseconds of one event that finds the caches full of other data.
double cold_ns(void (*event)()) {
    std::vector<char>   others(std::size_t{4} << 20);
    std::vector<double> with, without;
    for (int i = 0; i < 1001; ++i)
        for (bool const records : {false, true}) {
            for (std::size_t at = 0; at < others.size(); at += 64) ++others[at];
            benchmark::DoNotOptimize(others.data());
            auto const begin = observe::now();
            if (records) event();
            (records ? with : without).push_back(static_cast<double>(observe::now() - begin));
        }
    return bench::median(with) - bench::median(without);
}

struct Price {
    double span = booked([] { return cold_ns(one_span); }), mark = booked([] { return cold_ns(one_mark); });
};
Price const& price() {
    static Price const price;
    return price;
}

void events(benchmark::State& state, void (*event)(), double Price::*cold) {
    for (auto _ : state) {
        double const ns           = hot_ns(event);
        state.counters["ns"]      = ns;
        state.counters["cold_ns"] = price().*cold;
        state.SetIterationTime(1e-9 * ns);
    }
}

/// Counts what all threads have recorded since it was made.
struct Recorded {
    std::vector<std::uint64_t> cursors;
    std::size_t                spans = 0, marks = 0;

    Recorded() {
        observe::Timeline const& timeline = observe::timeline();
        for (std::size_t t = 0; t < timeline.tracks(); ++t) cursors.push_back(timeline.track(t).written());
    }
    void count() {
        observe::Timeline const& timeline = observe::timeline();
        cursors.resize(timeline.tracks());
        for (std::size_t t = 0; t < cursors.size(); ++t)
            timeline.track(t).read(cursors[t], [&](observe::Record const& r) { ++(r.begin == r.end ? marks : spans); });
    }
};

template <class Strategy>
void step(benchmark::State& state, typename Strategy::Communicator const& ranks) {
    std::size_t const        batch = 12;
    bench::RandomBatch const random(batch, bench::shakespeare_cpu);
    data::Batch const        data = random.view();
    Step<Strategy>           trainer(bench::shakespeare_cpu, {.weight_decay = 0.1}, ranks, {.micro_batch = batch});
    for (int i = 0; i < 5; ++i) trainer.step(data, 1e-4);
    Recorded recorded;
    trainer.step(data, 1e-4);
    recorded.count();
    std::vector<double> seconds;
    for (auto _ : state) {
        seconds.push_back(bench::seconds([&] { trainer.step(data, 1e-4); }));
        state.SetIterationTime(seconds.back());
    }
    double const taken        = static_cast<double>(recorded.spans) * price().span + static_cast<double>(recorded.marks) * price().mark;
    state.counters["records"] = static_cast<double>(recorded.spans + recorded.marks);
    state.counters["step_ms"] = 1e3 * bench::median(seconds);
    state.counters["of_step"] = 1e-9 * taken / bench::median(seconds);
}

}  // namespace

int main(int argc, char** argv) {
    comm::Environment mpi{argc, argv};
    return mpi.run([&] {
        benchmark::RegisterBenchmark("timeline/span", events, one_span, &Price::span)->UseManualTime()->Iterations(1);
        benchmark::RegisterBenchmark("timeline/mark", events, one_mark, &Price::mark)->UseManualTime()->Iterations(1);
        benchmark::RegisterBenchmark("timeline/step/single", step<parallel::Single>, parallel::Alone{})
            ->UseManualTime()
            ->Iterations(51)
            ->Unit(benchmark::kMillisecond);
        benchmark::RegisterBenchmark("timeline/step/sharded", step<parallel::Sharded<>>, mpi.world())
            ->UseManualTime()
            ->Iterations(51)
            ->Unit(benchmark::kMillisecond);
        benchmark::Initialize(&argc, argv);
        benchmark::RunSpecifiedBenchmarks();
        return 0;
    });
}
