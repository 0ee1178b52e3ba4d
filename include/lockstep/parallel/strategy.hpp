#pragma once
// The contract of a parallelism strategy: it holds the weights and gradients of a run and decides when they travel.
//
// A strategy is a type with the run-time `Options`; `Bound<Precision, Storage>` is the strategy at work on the units of a model.

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/comm/backoff.hpp"  // default_timeout
#include "lockstep/comm/wire.hpp"
#include "lockstep/precision/mixed.hpp"
#include "lockstep/state/bucket.hpp"
#include "lockstep/tensor/arena_storage.hpp"

namespace lockstep::parallel {

/// What the weights are acquired for. Units are acquired first to last in forward and evaluate, last to first in backward. The root, unit
/// 0, holds embedding and head: backward acquires it first and last, evaluate last too.
enum class Phase { forward, backward, evaluate };

/// When gathered weights may go: as soon as they have been used, or with the version.
/// Or with the version for the blocks that backward reads first.
enum class Reshard { always, never, keep_last };

/// Where gradients of several micro-steps add up: in each rank before the reduction, or in the shards after it.
enum class Accumulate { local, sharded };

/// Run-time choices of all strategies; each reads those that concern it.
struct Options {
    std::size_t               bucket_bytes       = std::size_t{25} << 20;  // of Replicated; 0: one bucket a parameter
    std::size_t               first_bucket_bytes = std::size_t{1} << 20;
    std::size_t               prefetch           = 1;  // units gathered ahead of use
    Reshard                   reshard            = Reshard::always;
    std::size_t               kept               = 1;     // blocks, for Reshard::keep_last
    bool                      overlap            = true;  // off: nothing travels while this rank computes
    std::optional<Accumulate> accumulate         = {};    // empty: as the strategy prefers
    std::optional<comm::Wire> wire               = {};    // empty: as the precision policy says
    comm::Reduction           reduction          = comm::Reduction::ordered;
    comm::Progress            progress           = comm::Progress::automatic;
    std::size_t               shard_group        = 0;  // ranks that hold one model together, for HybridSharded; 0: all
    std::size_t               in_flight          = 2;  // reductions under way at once, each with its scratch
    std::size_t               chunk_bytes        = 0;  // of a message: what an urgent collective waits for; 0: by policy
    double                    timeout            = comm::default_timeout;  // of a wait for other ranks, seconds
};

/// The part of a unit that this rank updates.
template <class Compute, class Master>
struct Owned {
    Range              range;           // of the unit
    std::span<Compute> weights;         // of the range; visible to all after `publish`
    std::span<Compute> weights_paired;  // of the range, the copy for input gradients; empty where the unit has one copy
    std::span<Master>  gradients;       // of the range, summed over all ranks after `wait`
    Range              counted;         // part of the range that this rank counts in global sums: every element is counted by one rank
};

/// A unit's full weights, as the layout of its matrices says.
template <class Compute>
struct Weights {
    std::span<Compute const> forward;     // what forward reads; may be empty in backward
    std::span<Compute const> input_grad;  // what input gradients read; empty in forward, and where the unit has one copy
};

/// Whether a phase needs each copy of a unit's weights.
struct CopiesRead {
    bool forward = true, input_grad = false;
};
constexpr CopiesRead copies_read(state::Unit const& unit, Phase phase) noexcept {
    bool const backward = unit.paired && phase == Phase::backward;
    return {!backward || unit.backward_computes, backward};
}

/// Makes a unit's full weights readable, in its layout, and may start to collect the next ones of the schedule.
template <class B, class P>
concept acquires = requires(B b, std::size_t unit, Phase phase) {
    { b.acquire(unit, phase) } -> std::same_as<Weights<typename P::compute>>;
};

/// May free what `acquire` made readable.
template <class B>
concept releases = requires(B b, std::size_t unit, Phase phase) {
    b.release(unit, phase);
};

/// Gives the unit's full gradient buffer, to which backward adds.
template <class B, class P>
concept collects_gradients = requires(B b, std::size_t unit) {
    { b.gradients(unit) } -> std::same_as<std::span<typename P::master>>;
};

/// Names its buckets, says whether each micro-step reduces them or only the last, and may only *start* work in `reduce`.
template <class B>
concept reduces = requires(B b, state::BucketIndex bucket) {
    { b.buckets() } -> std::convertible_to<std::span<state::GradientBucket const>>;
    { b.reduces_each_micro_step() } -> std::convertible_to<bool>;
    b.reduce(bucket);
};

/// Ends all work that `reduce` and `acquire` started.
template <class B>
concept waits = requires(B b) {
    b.wait();
};

/// Says which part of a unit this rank updates, and into how many parts its masters are cut: rank r owns the part r modulo that number.
template <class B, class P>
concept owns = requires(B b, std::size_t unit) {
    { b.owned(unit) } -> std::same_as<Owned<typename P::compute, typename P::master>>;
    { b.shards() } -> std::convertible_to<std::size_t>;
};

/// Makes the updated weights the ones that the next `acquire` reads, on all ranks.
template <class B>
concept publishes = requires(B b) {
    b.publish();
};

/// Collects on every rank the whole of a unit's buffer of which each rank has filled its owned part.
template <class B, class P>
concept assembles = requires(B b, std::size_t unit, std::span<typename P::master> whole) {
    b.assemble(unit, whole);
};

/// Sums integers over the ranks, shows a value of each rank to all, counts the bytes it has sent, names its progress policy.
template <class B>
concept agrees_on = requires(B b, std::span<std::int64_t> words) {
    b.start_sum(words).wait();
    { b.gather_values(std::uint64_t{}) } -> std::same_as<std::vector<std::uint64_t>>;
    { b.rank() } -> std::convertible_to<std::size_t>;
    { b.ranks() } -> std::convertible_to<std::size_t>;
    { b.bytes_sent() } -> std::convertible_to<std::uint64_t>;
    { b.progress() } -> std::convertible_to<std::string_view>;
};

template <class B, class P>
concept bound_strategy = acquires<B, P> && releases<B> && collects_gradients<B, P> && reduces<B> && waits<B> && owns<B, P> &&
    publishes<B> && assembles<B, P> && agrees_on<B>;

/// How many consecutive ranks gather weights together: all, unless the strategy says otherwise.
template <class B>
std::size_t gathered_among(B const& bound) noexcept {
    if constexpr (requires { bound.gathered_among(); })
        return bound.gathered_among();
    else
        return bound.ranks();
}

/// Says whether a rank may own part of a parameter, so that only elementwise optimizers fit.
template <class S>
concept declares_sharding = requires {
    { S::shards_parameters } -> std::convertible_to<bool>;
};

template <class S, class P = precision::Fp32, class Storage = tensor::ArenaStorage>
concept strategy = declares_sharding<S> && bound_strategy<typename S::template Bound<P, Storage>, P>;

}  // namespace lockstep::parallel
