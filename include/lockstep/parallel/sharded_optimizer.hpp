#pragma once
// ShardedOptimizer (ZeRO-1, Rajbhandari et al. 2020, arXiv:1910.02054): every rank holds all weights and gradients, and updates its shard
// of each unit. Gradients are reduce-scattered while backward goes on, updated weights gathered while the next forward does.

#include "lockstep/comm/fwd.hpp"
#include "lockstep/parallel/among_ranks.hpp"
#include "lockstep/parallel/reduction_queue.hpp"
#include "lockstep/parallel/unit_shards.hpp"
#include "lockstep/parallel/weight_buffers.hpp"

namespace lockstep::parallel {

/// Its buckets are the units: a shard is then one range. The sums of a shard replace this rank's contribution to it, so that gradients
/// take no more memory than in `Replicated`.
template <class Comm = comm::Communicator>
struct ShardedOptimizer {
    using Communicator = Comm;

    static constexpr bool shards_parameters = true;

    template <class Precision, class Storage>
    class Bound : public AmongRanks<Comm> {
        using Base = AmongRanks<Comm>;

    public:
        using Compute = typename Precision::compute;
        using Master  = typename Precision::master;
        using Base::rank, Base::ranks;

        Bound(Comm const& world, std::span<state::Unit const> units, Options const& options)
            : Base(world, options),
              units_(units),
              offsets_(state::unit_offsets(units)),
              shards_(units, ranks(), rank()),
              buckets_(state::unit_buckets(units)),
              wire_(options.wire.value_or(comm::wire_of<typename Precision::reduce>)),
              overlap_(options.overlap),
              weights_(units, observe::Category::parameters),
              gradients_(offsets_.back(), observe::Category::gradients),
              reductions_(Base::duplicate(world, options)),
              assembled_(Base::duplicate(world, options)),
              gathers_(unit_gathers<Gather, Compute>(engine(), assembled_, shards_, units[0].copies(), options.reduction)),
              stale_(gathers_.size(), true),
              subjects_(unit_subjects(units.size(),
                                      [this](std::size_t unit) { return shards_.scattered_bytes(unit, wire_bytes<Master>(wire_)); })),
              queue_(engine(), operations(options.reduction), subjects_, options.in_flight, options.overlap) {}

        std::size_t shards() const noexcept { return ranks(); }

        Weights<Compute> acquire(std::size_t unit, Phase phase) {
            engine().advance();
            if (overlap_) collect_all();
            CopiesRead const read = copies_read(units_[unit], phase);
            if (read.forward) collect(0, unit).wait();
            if (read.input_grad) collect(1, unit).wait();
            engine().advance();  // what was issued begins before the unit computes
            return weights_.whole(unit);
        }
        void              release(std::size_t, Phase) { engine().advance(); }
        std::span<Master> gradients(std::size_t unit) {
            return gradients_.span().subspan(offsets_[unit], offsets_[unit + 1] - offsets_[unit]);
        }

        std::span<state::GradientBucket const> buckets() const noexcept { return buckets_; }
        bool                                   reduces_each_micro_step() const noexcept { return false; }

        void reduce(state::BucketIndex bucket) {
            std::size_t const unit = units_.size() - 1 - bucket;
            Base::sends(subjects_[bucket].bytes);
            queue_.submit({.operation = bucket,
                           .buffer    = gradients(unit),
                           .mine      = shards_.within(gradients(unit), unit),
                           .result    = comm::Result::scattered,
                           .clear     = true});
        }
        void wait() {
            queue_.drain();
            for (Gather& gather : gathers_) gather.wait();
        }

        Owned<Compute, Master> owned(std::size_t unit) {
            return {shards_.mine(unit), shards_.within(weights_.forward(unit), unit),
                    units_[unit].paired ? shards_.within(weights_.input_grad(unit), unit) : std::span<Compute>{},
                    shards_.within(gradients(unit), unit), shards_.mine(unit)};
        }
        void publish() noexcept { std::fill(stale_.begin(), stale_.end(), true); }
        void assemble(std::size_t unit, std::span<Master> whole) { assemble_shards(assembled_, shards_, unit, whole); }

    private:
        using Base::engine;
        using Engine    = typename Comm::Engine;
        using Reduction = ReductionOf<Comm, Master>;
        using Gather    = GatherOf<Comm, Compute>;

        std::vector<Reduction> operations(comm::Reduction how) const {
            std::vector<Reduction> result;
            for (std::size_t unit = units_.size(); unit-- > 0;)
                result.push_back(reductions_.template reduction<Master>(shards_.parts(unit), wire_, how, static_cast<int>(result.size())));
            return result;
        }

        /// Starts to collect a copy of a unit's weights, unless that has happened since they changed.
        Gather& collect(std::size_t copy, std::size_t unit) {
            std::size_t const which = copy * units_.size() + unit;
            if (stale_[which]) {
                stale_[which] = false;
                Base::sends(shards_.gathered_bytes(unit, sizeof(Compute)));
                gathers_[which].start(copy == 0 ? weights_.forward(unit) : weights_.input_grad(unit));
            }
            return gathers_[which];
        }
        /// In the order in which forward and backward read them.
        void collect_all() {
            for (std::size_t unit = 0; unit < units_.size(); ++unit) collect(0, unit);
            if (units_[0].copies() == 1) return;
            collect(1, 0);
            for (std::size_t unit = units_.size(); unit-- > 1;) collect(1, unit);
        }

        std::span<state::Unit const>                       units_;
        std::vector<std::size_t>                           offsets_;
        UnitShards                                         shards_;
        std::vector<state::GradientBucket>                 buckets_;
        comm::Wire                                         wire_;
        bool                                               overlap_;
        WeightBuffers<Compute, Storage>                    weights_;
        typename Storage::template Buffer<Master>          gradients_;
        Comm                                               reductions_;  // gradients
        Comm                                               assembled_;   // weights
        std::vector<Gather>                                gathers_;     // by copy, then by unit
        std::vector<bool>                                  stale_;       // not collected since the last publish
        std::vector<comm::Subject>                         subjects_;    // of each bucket
        ReductionQueue<Reduction, Master, Storage, Engine> queue_;
        Settled<Engine>                                    settled_{engine()};
    };
};

}  // namespace lockstep::parallel
