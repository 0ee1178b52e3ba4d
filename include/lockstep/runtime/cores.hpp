#pragma once
// How many threads a rank should have.

#include <sched.h>

#include <algorithm>
#include <thread>

namespace lockstep::runtime {

/// Cores that this process may run on.
inline int available_cores() noexcept {
#if defined(__linux__)
    cpu_set_t set;
    if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// An equal share of the cores for each rank of the node, at least one.
inline int threads_for(int ranks_on_node) noexcept { return std::max(1, available_cores() / std::max(1, ranks_on_node)); }

}  // namespace lockstep::runtime
