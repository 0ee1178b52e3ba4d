// How much of a reduction compute hides, and what that costs compute: an AllReduce of some MiB, cut into buckets, under kernels that take
// some milliseconds together, for each progress policy. Run it on several ranks, on one machine or between two:
//   mpiexec -n 2 bench_overlap [MiB = 16] [milliseconds of compute = 400] [rounds = 5] [buckets = 1] [chunk KiB = 64] [depth = 4]
// Columns, medians over the rounds on rank 0: the reduction alone; kernels alone; both together; how long the step then waited (exposed);
// the speed that kernels kept while the reduction ran, in per cent: the processor time of the kernels that ran meanwhile, over all that the
// process spent. Kernels are multiply-adds in the first-level cache, one thread a rank.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "lockstep/comm/environment.hpp"
#include "lockstep/parallel/progress.hpp"
#include "lockstep/parallel/reduction_queue.hpp"
#include "lockstep/state/shard.hpp"
#include "lockstep/tensor/arena_storage.hpp"

using namespace lockstep;

namespace {

using Clock     = std::chrono::steady_clock;
using Reduction = comm::AnyReduction<float>;
using Queue     = parallel::ReductionQueue<Reduction, float, tensor::ArenaStorage, comm::ProgressEngine>;

double milliseconds(Clock::duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

/// Of all threads of this process.
double processor_milliseconds() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

/// Work of a fixed amount: `repeats` passes over a vector that fits into the first-level cache.
struct Kernel {
    std::vector<float> values  = std::vector<float>(2048, 1.0f);
    std::size_t        repeats = 1000;

    [[gnu::noinline]] void operator()() {
        for (std::size_t r = 0; r < repeats; ++r)
            for (float& value : values) value = value * 0.999f + 0.001f;
    }
    /// Chooses the repeats so that a call takes that long.
    void calibrate(double wanted) {
        for (int round = 0; round < 3; ++round) {
            double best = 1e9;
            for (int i = 0; i < 5; ++i) {
                auto const begin = Clock::now();
                (*this)();
                best = std::min(best, milliseconds(Clock::now() - begin));
            }
            repeats = std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(repeats) * wanted / best));
        }
    }
};

struct Way {
    char const*     name;
    comm::Progress  progress;
    comm::Reduction how;
    bool            overlap;
};

int run(comm::Communicator const& world, int argc, char** argv) {
    auto const argument = [&](int i, long otherwise) {
        return static_cast<std::size_t>(argc > i && std::atol(argv[i]) > 0 ? std::atol(argv[i]) : otherwise);
    };
    std::size_t const  bytes = argument(1, 16) << 20, compute = argument(2, 400), rounds = argument(3, 5), buckets = argument(4, 1);
    std::size_t const  kernels = 40, chunk = argument(5, 64) << 10, depth = argument(6, 4);
    std::vector<float> gradients(bytes / sizeof(float), 1.0f);
    Kernel             kernel;
    kernel.calibrate(static_cast<double>(compute) / kernels);

    if (world.rank() == 0)
        std::printf("%d ranks, %zu MiB in %zu buckets, %zu kernels; milliseconds\n%-22s %9s %9s %9s %9s %9s\n", world.size(), bytes >> 20,
                    buckets, kernels, "", "alone", "kernels", "together", "exposed", "kept %");
    for (Way const way : {Way{"no overlap", comm::Progress::inside, comm::Reduction::ordered, false},
                          Way{"inside", comm::Progress::inside, comm::Reduction::ordered, true},
                          Way{"thread", comm::Progress::thread, comm::Reduction::ordered, true},
                          Way{"inside, vendor", comm::Progress::inside, comm::Reduction::vendor, true},
                          Way{"thread, vendor", comm::Progress::thread, comm::Reduction::vendor, true}}) {
        comm::Communicator const   ranks = world.duplicate().with_chunk_bytes(chunk);
        comm::ProgressEngine       engine({.policy = way.progress, .rank = static_cast<std::size_t>(world.rank()), .depth = depth});
        std::vector<Reduction>     operations;
        std::vector<comm::Subject> subjects;
        std::vector<Range>         parts = state::even_ranges({0, gradients.size()}, buckets);
        for (std::size_t b = 0; b < buckets; ++b) {
            operations.push_back(ranks.reduction<float>(state::even_ranges({0, parts[b].size()}, static_cast<std::size_t>(world.size())),
                                                        comm::Wire::fp32, way.how, static_cast<int>(b)));
            subjects.push_back({comm::Collective::all_reduce, "bucket", b, 0, parts[b].size() * sizeof(float)});
        }
        Queue      queue(engine, std::move(operations), subjects, 2, way.overlap);
        auto const submit = [&](std::size_t b) {
            queue.submit({.operation = b, .buffer = std::span(gradients).subspan(parts[b].begin, parts[b].size()), .mine = {}});
        };
        std::vector<double> alone, kernels_alone, together, exposed, kept;
        for (std::size_t round = 0; round <= rounds; ++round) {
            std::fill(gradients.begin(), gradients.end(), 1.0f);
            world.barrier();
            auto const a = Clock::now();
            for (std::size_t b = 0; b < buckets; ++b) submit(b);
            queue.drain();
            auto const b = Clock::now();
            world.barrier();
            auto const   c  = Clock::now();
            double const pc = processor_milliseconds();
            for (std::size_t k = 0; k < kernels; ++k) kernel();
            auto const   d  = Clock::now();
            double const pd = processor_milliseconds();
            world.barrier();

            auto const   e       = Clock::now();
            double const pe      = processor_milliseconds();
            std::size_t  started = 0, meanwhile = 0;  // kernels that ran while something was on its way
            double       last = pe;
            for (std::size_t k = 0; k < kernels; ++k) {
                // Buckets become ready one after another over the first half of the kernels.
                for (; started < buckets && started * kernels <= 2 * k * buckets; ++started) submit(started);
                kernel();
                engine.advance();
                if (!queue.idle()) {
                    ++meanwhile;
                    last = processor_milliseconds();
                }
            }
            auto const f = Clock::now();
            queue.drain();
            auto const g = Clock::now();
            if (round == 0) continue;  // warm-up
            alone.push_back(milliseconds(b - a));
            kernels_alone.push_back(milliseconds(d - c));
            together.push_back(milliseconds(g - e));
            exposed.push_back(milliseconds(g - f));
            double const ideal = (pd - pc) / static_cast<double>(kernels) * static_cast<double>(meanwhile);
            kept.push_back(meanwhile == 0 ? 100 : 100 * ideal / (last - pe));
        }
        if (gradients[0] != static_cast<float>(world.size() * world.size())) peer_error("the sums are wrong: found ", gradients[0]);
        if (world.rank() == 0)
            std::printf("%-22s %9.1f %9.1f %9.1f %9.1f %9.1f\n", way.name, median(alone), median(kernels_alone), median(together),
                        median(exposed), median(kept));
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    comm::Environment mpi{argc, argv};
    return mpi.run([&] { return run(mpi.world(), argc, argv); });
}
