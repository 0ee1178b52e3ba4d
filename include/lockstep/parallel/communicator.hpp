#pragma once
// What strategies need of a communicator. `comm::Communicator` has it; so may a virtual cluster.

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/comm/task.hpp"
#include "lockstep/comm/wire.hpp"
#include "lockstep/state/unit.hpp"

namespace lockstep::parallel {

/// An operation that is started again and again: `advance` does what can be done without waiting, inside a window, and says whether it
/// is over; `wait` ends it; `abandon` forgets it.
template <class O>
concept operation = std::movable<O> && requires(O operation, comm::Window window) {
    { operation.advance(window) } -> std::convertible_to<bool>;
    operation.wait();
    { operation.abandon() }
    noexcept;
};

/// Names the engine that carries its operations forward, for example `comm::ProgressEngine`.
template <class C>
concept names_engine = requires(typename C::Engine engine, comm::Task& task) {
    engine.issue(task);
    engine.advance();
    engine.wait(task);
    engine.settle();
};

template <class C>
concept ranks_itself = requires(C const& c) {
    { c.rank() } -> std::convertible_to<std::size_t>;
    { c.size() } -> std::convertible_to<std::size_t>;
};

/// Operations of one communicator do not see those of its duplicate.
template <class C>
concept duplicates = requires(C const& c) {
    { c.duplicate() } -> std::same_as<C>;
};

/// Parts of a buffer, one a rank, are summed over the ranks in a fixed order, or collected.
template <class C>
concept makes_operations = requires(C const& c, std::vector<Range> parts) {
    { c.template reduction<float>(parts, comm::Wire::fp32, comm::Reduction::ordered, 0) } -> operation;
    { c.template all_gather<float>(parts, 0, comm::Reduction::ordered) } -> operation;
};

/// Sums integers, which no order can change, and shows one value of each rank to all.
template <class C>
concept agrees = requires(C const& c, std::span<std::int64_t> words) {
    { c.start_sum(words).advance() } -> std::convertible_to<bool>;
    c.start_sum(words).wait();
    { c.gather_values(std::uint64_t{}) } -> std::same_as<std::vector<std::uint64_t>>;
};

/// Ranks of one color form a group, ordered by key. Only who makes groups needs it.
template <class C>
concept splits = requires(C const& c, int color, int key) {
    { c.split(color, key) } -> std::same_as<C>;
};

/// Ranks of the communicator that share this one's node, which share its cores. Collective.
template <class C>
int ranks_on_node(C const& communicator) {
    if constexpr (requires { communicator.node().size(); })
        return static_cast<int>(communicator.node().size());
    else
        return 1;
}

template <class C>
concept communicator = std::movable<C> && ranks_itself<C> && names_engine<C> && duplicates<C> && makes_operations<C> && agrees<C>;

}  // namespace lockstep::parallel
