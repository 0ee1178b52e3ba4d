#pragma once
// What `Sharded` and `HybridSharded` are at work: units of which a rank keeps its shard, among all ranks or among those of its group.

#include <bit>
#include <optional>

#include "lockstep/parallel/among_ranks.hpp"
#include "lockstep/parallel/gathered_units.hpp"
#include "lockstep/parallel/grouped_reduction.hpp"
#include "lockstep/parallel/pools.hpp"
#include "lockstep/parallel/reduction_queue.hpp"
#include "lockstep/parallel/unit_shards.hpp"

namespace lockstep::parallel {

/// The ranks whose shards make up a model, and where there are several such groups the ranks of all of them that hold the same shard.
/// Groups are consecutive ranks.
template <class Comm>
struct Groups {
    Comm                inside;
    std::optional<Comm> between;

    std::size_t count() const { return between ? static_cast<std::size_t>(between->size()) : 1; }
    std::size_t mine() const { return between ? static_cast<std::size_t>(between->rank()) : 0; }
};

/// Weights are gathered inside the group. Gradients are summed over all ranks in the order of one tree over them: in two steps where groups
/// have a power of two of ranks; else every rank sends what it contributes to a shard, unreduced, to the owner of it in each group.
template <class Comm, class Precision, class Storage>
class ShardedUnits : public AmongRanks<Comm> {
    using Base = AmongRanks<Comm>;

public:
    using Compute = typename Precision::compute;
    using Master  = typename Precision::master;

    std::size_t shards() const noexcept { return shards_.ranks(); }
    std::size_t gathered_among() const noexcept { return shards_.ranks(); }

    Weights<Compute> acquire(std::size_t unit, Phase phase) {
        engine().advance();
        auto const weights = gathered_.acquire(unit, phase, prefetch_, [this](std::size_t u, std::size_t copy, std::span<Compute> buffer) {
            auto const mine = shards_.packed(weights_[copy].span(), u);
            std::copy(mine.begin(), mine.end(), shards_.within(buffer, u).begin());
            Base::sends(shards_.gathered_bytes(u, sizeof(Compute)));
        });
        engine().advance();  // what was issued ahead begins before the unit computes
        return weights;
    }
    void release(std::size_t unit, Phase phase) {
        gathered_.release(unit, phase);
        engine().advance();
    }

    std::span<Master> gradients(std::size_t unit) { return full_gradients_[buffer_for(unit)].span().first(units_[unit].size); }

    std::span<state::GradientBucket const> buckets() const noexcept { return buckets_; }
    bool                                   reduces_each_micro_step() const noexcept { return !local_; }

    void reduce(state::BucketIndex bucket) {
        std::size_t const unit   = units_.size() - 1 - bucket;
        std::size_t const buffer = buffer_for(unit);
        Base::sends(subjects_[bucket].bytes);
        queue_.submit({.operation = bucket,
                       .buffer    = full_gradients_[buffer].span().first(units_[unit].size),
                       .mine      = shards_.packed(gradients_.span(), unit),
                       .add       = reduced_[unit],
                       .result    = comm::Result::scattered,
                       .clear     = true});
        reduced_[unit]      = true;
        collecting_[buffer] = none;
    }
    void wait() {
        queue_.drain();
        gathered_.wait();
    }

    Owned<Compute, Master> owned(std::size_t unit) {
        return {shards_.mine(unit), shards_.packed(weights_[0].span(), unit),
                units_[unit].paired ? shards_.packed(weights_[1].span(), unit) : std::span<Compute>{},
                shards_.packed(gradients_.span(), unit), state::shards(units_[unit], shards_.mine(unit), groups_.count())[groups_.mine()]};
    }
    void publish() noexcept {
        gathered_.invalidate();
        std::fill(reduced_.begin(), reduced_.end(), false);
    }
    void assemble(std::size_t unit, std::span<Master> whole) { assemble_shards(groups_.inside, shards_, unit, whole); }

protected:
    /// Collective.
    ShardedUnits(Comm const& world, Groups<Comm> groups, std::span<state::Unit const> units, Options const& options)
        : Base(world, options),
          units_(units),
          groups_(limited(std::move(groups), options)),
          steps_(groups_.count() == 1                                                                      ? Steps::one
                 : std::has_single_bit(static_cast<std::size_t>(groups_.inside.size())) || vendor(options) ? Steps::two
                                                                                                           : Steps::unreduced),
          shards_(units, static_cast<std::size_t>(groups_.inside.size()), static_cast<std::size_t>(groups_.inside.rank())),
          buckets_(state::unit_buckets(units)),
          prefetch_(prefetched(options)),
          local_(options.accumulate.value_or(Accumulate::sharded) == Accumulate::local),
          wire_(options.wire.value_or(comm::wire_of<typename Precision::reduce>)),
          reductions_(Base::duplicate(steps_ == Steps::unreduced ? world : groups_.inside, options)),
          gathered_(unit_gathers<Gather, Compute>(engine(), groups_.inside, shards_, units[0].copies(), options.reduction), units,
                    gathered_blocks(options, units.size() - 1)),
          subjects_(unit_subjects(units.size(), [this](std::size_t unit) { return reduced_bytes(unit); })),
          queue_(engine(), operations(options.reduction), subjects_, in_flight(options), options.overlap) {
        for (std::size_t copy = 0; copy < units[0].copies(); ++copy) weights_[copy] = {shards_.elements(), observe::Category::parameters};
        gradients_             = {shards_.elements(), observe::Category::gradients};
        std::size_t const pool = 1 + gradient_blocks(options, units.size() - 1);
        for (std::size_t b = 0; b < pool; ++b)
            full_gradients_.emplace_back(b == 0 || local_ ? units[b].size : largest_block(units), observe::Category::gradients);
        collecting_.resize(pool, none);
        reduced_.resize(units.size(), false);
    }
    ~ShardedUnits() = default;

private:
    using Base::engine;
    using Engine    = typename Comm::Engine;
    using Reduction = GroupedReduction<ReductionOf<Comm, Master>, Master>;
    using Gather    = GatherOf<Comm, Compute>;

    enum class Steps { one, two, unreduced };

    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    static bool vendor(Options const& options) noexcept { return options.reduction == comm::Reduction::vendor; }

    /// The vendor's collectives must begin in the same order on all ranks. The queue sees to that for the first steps, so with a second one
    /// there is one job at a time.
    std::size_t in_flight(Options const& options) const noexcept { return steps_ == Steps::two && vendor(options) ? 1 : options.in_flight; }

    Groups<Comm> limited(Groups<Comm> groups, Options const& options) const {
        groups.inside = Base::duplicate(groups.inside, options);
        if (groups.between) groups.between.emplace(Base::duplicate(*groups.between, options));
        return groups;
    }

    std::vector<Reduction> operations(comm::Reduction how) const {
        std::vector<Reduction> result;
        for (std::size_t unit = units_.size(); unit-- > 0;) {
            int const          channel = static_cast<int>(result.size());
            std::vector<Range> parts   = shards_.parts(unit);
            if (steps_ == Steps::unreduced)
                for (std::size_t rank = shards(); rank < Base::ranks(); ++rank) parts.push_back(parts[rank - shards()]);
            auto inside = reductions_.template reduction<Master>(parts, wire_, how, channel);
            if (steps_ != Steps::two) {
                result.emplace_back(std::move(inside));
                continue;
            }
            std::size_t const shard = shards_.mine(unit).size();
            result.emplace_back(std::move(inside),
                                groups_.between->template reduction<Master>(state::even_ranges({0, shard}, groups_.count()),
                                                                            comm::Wire::fp32, how, channel),
                                shard);
        }
        return result;
    }
    std::size_t reduced_bytes(std::size_t unit) const {
        std::size_t const element = wire_bytes<Master>(wire_), shard = shards_.mine(unit).size();
        if (steps_ == Steps::unreduced) return (units_[unit].size * groups_.count() - shard) * element;
        std::size_t bytes = shards_.scattered_bytes(unit, element);
        if (steps_ == Steps::two) bytes += summed_bytes(shard, groups_.count(), groups_.mine(), sizeof(Master), sizeof(Master));
        return bytes;
    }

    /// The buffer in which a unit's gradient is collected; all zero when it is taken anew.
    std::size_t buffer_for(std::size_t unit) {
        if (unit == 0 || local_) {
            if (collecting_[unit] != unit) queue_.drain_until_free(full_gradients_[unit].span().data());
            collecting_[unit] = unit;
            return unit;
        }
        for (std::size_t b = 1; b < collecting_.size(); ++b)
            if (collecting_[b] == unit) return b;
        std::size_t const taken = next_;
        next_                   = next_ + 1 < collecting_.size() ? next_ + 1 : 1;
        require(collecting_[taken] == none, "parallel: the gradient of unit ", collecting_[taken], " must be reduced before that of unit ",
                unit, " is collected");
        queue_.drain_until_free(full_gradients_[taken].span().data());
        collecting_[taken] = unit;
        return taken;
    }

    std::span<state::Unit const>                           units_;
    Groups<Comm>                                           groups_;  // weights travel inside
    Steps                                                  steps_;
    UnitShards                                             shards_;
    std::vector<state::GradientBucket>                     buckets_;
    std::size_t                                            prefetch_;
    bool                                                   local_;
    comm::Wire                                             wire_;
    Comm                                                   reductions_;  // gradients
    typename Storage::template Buffer<Compute>             weights_[2];  // this rank's shards, by copy
    typename Storage::template Buffer<Master>              gradients_;   // of this rank's shards
    GatheredUnits<Gather, Compute, Storage>                gathered_;
    std::vector<typename Storage::template Buffer<Master>> full_gradients_;  // of whole units, one of them the root
    std::vector<std::size_t>                               collecting_;      // unit of each of these, or none
    std::size_t                                            next_ = 1;
    std::vector<bool>                                      reduced_;   // since the last publish: further sums add up
    std::vector<comm::Subject>                             subjects_;  // of each bucket
    ReductionQueue<Reduction, Master, Storage, Engine>     queue_;
    Settled<Engine>                                        settled_{engine()};
};

}  // namespace lockstep::parallel
