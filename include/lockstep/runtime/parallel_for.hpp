#pragma once
// The door to oneTBB. Loops run over fixed blocks: a block's result never depends on how many threads there are.

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <cstddef>
#include <utility>

namespace lockstep::runtime {

/// The threads of one rank. Everything a step computes runs inside `run`.
class Threads {
public:
    explicit Threads(int count) : limit_(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(count)), arena_(count) {}

    int count() const noexcept { return arena_.max_concurrency(); }

    template <class Body>
    decltype(auto) run(Body&& body) {
        return arena_.execute(std::forward<Body>(body));
    }

private:
    tbb::global_control limit_;
    tbb::task_arena     arena_;
};

/// Work below this many elementary operations (about 10 us) is not worth a task.
inline constexpr std::size_t grain = 32768;

/// Calls body(block) for block = 0 .. blocks-1, in any order, on the threads of the surrounding `Threads::run`.
/// Blocks must write to different places. `cost` estimates one block in elementary operations; small loops stay serial.
template <class Body>
void parallel_for(std::size_t blocks, std::size_t cost, Body const& body) {
    if (blocks <= 1 || blocks * cost < grain || tbb::this_task_arena::max_concurrency() == 1) {
        for (std::size_t block = 0; block < blocks; ++block) body(block);
        return;
    }
    std::size_t const together = cost >= grain ? 1 : (grain + cost) / (cost + 1);
    tbb::parallel_for(
        tbb::blocked_range<std::size_t>(0, blocks, together),
        [&body](tbb::blocked_range<std::size_t> const& range) {
            for (std::size_t block = range.begin(); block != range.end(); ++block) body(block);
        },
        tbb::simple_partitioner{});
}

}  // namespace lockstep::runtime
