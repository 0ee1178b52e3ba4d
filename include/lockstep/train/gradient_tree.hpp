#pragma once
// Sums over micro-steps whose bits do not depend on how the global batch is shared out to ranks.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/comm/wire.hpp"
#include "lockstep/observe/ledger.hpp"
#include "lockstep/observe/timeline.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/state/bucket.hpp"
#include "lockstep/train/trainer_options.hpp"

namespace lockstep {

/// How often partial sums are added up after micro-step m of `count`. With count = 2^k q and q odd, blocks of q micro-steps are a tree
/// each, by pairs from the left as `comm::ordered_sum` has it, and the blocks are a full tree above. Both halves of a tree of an even
/// number are then trees of half of it: the micro-steps of one of 2^j ranks are a subtree of the global batch, and the tree over rank index
/// is its top.
constexpr std::size_t merges_after(std::size_t m, std::size_t count) noexcept {
    std::size_t const odd = count >> std::countr_zero(count), within = m % odd;
    if (within + 1 < odd) return static_cast<std::size_t>(std::countr_zero(within + 1));
    return static_cast<std::size_t>(std::popcount(odd - 1) + std::countr_zero(m / odd + 1));
}

/// Most partial sums that wait at once, besides the gradient that is being computed.
constexpr std::size_t partial_sums(std::size_t micro_steps) noexcept { return static_cast<std::size_t>(std::bit_width(micro_steps)) - 1; }

/// Does nothing unless the options want it. Costs `partial_sums(A)` buffers of all gradients (category gradients) beside those of the
/// strategy, allocated by the first step, and a pass over the gradients after each micro-step.
template <class Master, class Storage>
class GradientTree {
public:
    /// Raises an input error where the option cannot keep what it promises. `wire` is the precision's.
    GradientTree(std::span<state::Unit const> units, TrainerOptions const& options, comm::Wire wire, std::size_t ranks)
        : units_(units), offsets_(state::unit_offsets(units)), on_(options.reproducible) {
        if (!on_) return;
        parallel::Options const& strategy = options.strategy;
        if (!std::has_single_bit(ranks)) input_error("reproducible: expected a power of two of ranks, found ", ranks);
        if (strategy.wire.value_or(wire) != comm::Wire::fp32)
            input_error("reproducible: expected an fp32 wire, found bf16, on which the sum of each rank is rounded");
        if (strategy.reduction != comm::Reduction::ordered) input_error("reproducible: expected an ordered reduction, found the vendor's");
        if (strategy.accumulate == parallel::Accumulate::sharded)
            input_error("reproducible: expected micro-steps to add up in each rank, found accumulation in the shards");
    }

    /// To be called before the first of so many micro-steps.
    void restart(std::size_t micro_steps) {
        if (!on_) return;
        count_   = micro_steps;
        waiting_ = 0;
        while (sums_.size() < partial_sums(micro_steps)) sums_.emplace_back(offsets_.back(), observe::Category::gradients);
    }

    /// To be called after micro-step m: takes its gradients from the strategy's buffers and clears them. To the last ones it adds what
    /// waits, unless `finish` has done so.
    template <class Strategy>
    void add(std::size_t m, Strategy& strategy) {
        if (!on_) return;
        observe::Span const span(observe::Event::merge, 0, m);
        if (m + 1 == count_) {
            if (strategy.buckets().empty())
                for (std::size_t unit = 0; unit < units_.size(); ++unit) finish(unit, {0, units_[unit].size}, strategy.gradients(unit));
            return;
        }
        std::size_t const bottom = waiting_ - merges_after(m, count_);
        for (std::size_t unit = 0; unit < units_.size(); ++unit) {
            std::span<Master> const gradient = strategy.gradients(unit);
            for_blocks({0, gradient.size()}, [&](std::size_t begin, std::size_t end) {
                merge(unit, gradient, begin, end, bottom);
                std::copy(gradient.data() + begin, gradient.data() + end, sums_[bottom].span().data() + offsets_[unit] + begin);
                std::fill(gradient.data() + begin, gradient.data() + end, Master{});
            });
        }
        waiting_ = bottom + 1;
    }

    /// Adds what waits to the gradients of a bucket, which the last micro-step has just completed: now they are sums over all of them.
    template <class Strategy>
    void finish(state::BucketIndex bucket, Strategy& strategy) {
        if (!on_) return;
        for (auto const [unit, parameter] : strategy.buckets()[bucket].members)
            finish(unit, units_[unit].parameters[parameter].range(), strategy.gradients(unit));
    }

private:
    static constexpr std::size_t block = 16384;  // elements

    void finish(std::size_t unit, Range part, std::span<Master> gradient) {
        for_blocks(part, [&](std::size_t begin, std::size_t end) { merge(unit, gradient, begin, end, 0); });
    }

    template <class Body>
    static void for_blocks(Range part, Body const& body) {
        runtime::parallel_for((part.size() + block - 1) / block, block,
                              [&](std::size_t b) { body(part.begin + b * block, std::min(part.end, part.begin + (b + 1) * block)); });
    }

    /// gradient[i] := the tree of it and the partial sums from the last to that at `bottom`.
    void merge(std::size_t unit, std::span<Master> gradient, std::size_t begin, std::size_t end, std::size_t bottom) {
        for (std::size_t s = waiting_; s-- > bottom;) {
            Master const* const earlier = sums_[s].span().data() + offsets_[unit];
            for (std::size_t i = begin; i < end; ++i) gradient[i] = earlier[i] + gradient[i];
        }
    }

    std::span<state::Unit const>                           units_;
    std::vector<std::size_t>                               offsets_;
    std::vector<typename Storage::template Buffer<Master>> sums_;
    bool                                                   on_;
    std::size_t                                            count_ = 1, waiting_ = 0;  // micro-steps, partial sums
};

}  // namespace lockstep
