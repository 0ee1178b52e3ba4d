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

/// The threads of the surrounding `Threads::run`.
inline std::size_t threads_here() noexcept { return static_cast<std::size_t>(tbb::this_task_arena::max_concurrency()); }

/// Work below this many elementary operations (about 10 us) is not worth a task.
inline constexpr std::size_t grain = 32768;

namespace detail {

/// A loop body as a pointer and what calls it for the blocks of a range: oneTBB's templates are then instantiated once, not for every loop.
struct BlockLoop {
    void const* body;
    void (*run)(void const* body, std::size_t begin, std::size_t end);
};

inline void run_in_tasks(std::size_t blocks, std::size_t together, BlockLoop loop) {
    tbb::parallel_for(
        tbb::blocked_range<std::size_t>(0, blocks, together),
        [loop](tbb::blocked_range<std::size_t> const& range) { loop.run(loop.body, range.begin(), range.end()); },
        tbb::simple_partitioner{});
}

}  // namespace detail

/// Calls body(block) for block = 0 .. blocks-1, in any order, on the threads of the surrounding `Threads::run`.
/// Blocks must write to different places. `cost` estimates one block in elementary operations; small loops stay serial.
template <class Body>
void parallel_for(std::size_t blocks, std::size_t cost, Body const& body) {
    detail::BlockLoop const loop{&body, [](void const* called, std::size_t begin, std::size_t end) {
                                     for (std::size_t block = begin; block != end; ++block) (*static_cast<Body const*>(called))(block);
                                 }};
    if (blocks <= 1 || blocks * cost < grain || threads_here() == 1) return loop.run(loop.body, 0, blocks);
    detail::run_in_tasks(blocks, cost >= grain ? 1 : (grain + cost) / (cost + 1), loop);
}

}  // namespace lockstep::runtime
