#pragma once
// Sharded (ZeRO-3, Rajbhandari et al. 2020, arXiv:1910.02054; FSDP, Zhao et al. 2023, arXiv:2304.11277): a rank keeps its shard of
// every unit. Weights are gathered before they are used, gradients reduce-scattered after they are complete.

#include "lockstep/comm/fwd.hpp"
#include "lockstep/parallel/communicator.hpp"
#include "lockstep/parallel/gathered_units.hpp"
#include "lockstep/parallel/pools.hpp"
#include "lockstep/parallel/progress.hpp"
#include "lockstep/parallel/reduction_queue.hpp"
#include "lockstep/parallel/strategy.hpp"
#include "lockstep/state/shard.hpp"

namespace lockstep::parallel {

template <class Comm = comm::Communicator>
struct Sharded {
    using Communicator = Comm;

    static constexpr bool shards_parameters = true;

    template <class Precision, class Storage>
    class Bound {
        static_assert(communicator<Comm>,
                      "lockstep: Communicator must know its rank, duplicate itself, make operations and agree; see "
                      "lockstep/parallel/communicator.hpp");

    public:
        using Compute = typename Precision::compute;
        using Master  = typename Precision::master;

        Bound(Comm const& world, std::span<state::Unit const> units, Options const& options)
            : engine_(engine_settings(world, options)),
              sums_(engine_, duplicate_with(world, options, engine_.policy())),
              reductions_(duplicate_with(world, options, engine_.policy())),
              gathers_(duplicate_with(world, options, engine_.policy())),
              units_(units),
              buckets_(state::unit_buckets(units)),
              prefetch_(prefetched(options)),
              local_(options.accumulate.value_or(Accumulate::sharded) == Accumulate::local),
              wire_(options.wire.value_or(comm::wire_of<typename Precision::reduce>)),
              parts_(parts()),
              subjects_(subjects()),
              gathered_(gather_operations(options.reduction), units, gathered_blocks(options, units.size() - 1)),
              queue_(engine_, reduction_operations(options.reduction), subjects_, options.in_flight, options.overlap) {
            shard_offsets_.push_back(0);
            for (auto const& parts : parts_) shard_offsets_.push_back(shard_offsets_.back() + parts[rank()].size());
            for (std::size_t copy = 0; copy < units[0].copies(); ++copy)
                weights_[copy] = {shard_offsets_.back(), observe::Category::parameters};
            gradients_             = {shard_offsets_.back(), observe::Category::gradients};
            std::size_t const pool = 1 + gradient_blocks(options, units.size() - 1);
            for (std::size_t b = 0; b < pool; ++b)
                full_gradients_.emplace_back(b == 0 || local_ ? units[b].size : largest_block(units), observe::Category::gradients);
            collecting_.resize(pool, none);
            reduced_.resize(units.size(), false);
        }

        std::size_t      rank() const noexcept { return static_cast<std::size_t>(sums_.ranks().rank()); }
        std::size_t      ranks() const noexcept { return static_cast<std::size_t>(sums_.ranks().size()); }
        std::uint64_t    bytes_sent() const noexcept { return bytes_sent_; }
        std::string_view progress() const noexcept { return comm::name(engine_.policy()); }

        Weights<Compute> acquire(std::size_t unit, Phase phase) {
            engine_.advance();
            auto const weights =
                gathered_.acquire(unit, phase, prefetch_, [this](std::size_t u, std::size_t copy, std::span<Compute> buffer) {
                    auto const mine = shard(weights_[copy].span(), u);
                    std::copy(mine.begin(), mine.end(), buffer.begin() + static_cast<std::ptrdiff_t>(parts_[u][rank()].begin));
                    bytes_sent_ += gathered_bytes(u);
                });
            engine_.advance();  // what was issued ahead begins before the unit computes
            return weights;
        }
        void release(std::size_t unit, Phase phase) {
            gathered_.release(unit, phase);
            engine_.advance();
        }

        std::span<Master> gradients(std::size_t unit) { return full_gradients_[buffer_for(unit)].span().first(units_[unit].size); }

        std::span<state::GradientBucket const> buckets() const noexcept { return buckets_; }
        bool                                   reduces_each_micro_step() const noexcept { return !local_; }

        void reduce(state::BucketIndex bucket) {
            std::size_t const unit   = units_.size() - 1 - bucket;
            std::size_t const buffer = buffer_for(unit);
            bytes_sent_ += subjects_[bucket].bytes;
            queue_.submit({.operation = bucket,
                           .buffer    = full_gradients_[buffer].span().first(units_[unit].size),
                           .mine      = shard(gradients_.span(), unit),
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
            return {parts_[unit][rank()], shard(weights_[0].span(), unit),
                    units_[unit].paired ? shard(weights_[1].span(), unit) : std::span<Compute>{}, shard(gradients_.span(), unit),
                    parts_[unit][rank()]};
        }
        void publish() noexcept {
            gathered_.invalidate();
            std::fill(reduced_.begin(), reduced_.end(), false);
        }
        void assemble(std::size_t unit, std::span<Master> whole) {
            auto gather = gathers_.template all_gather<Master>(parts_[unit], static_cast<int>(2 * units_.size() + unit));
            gather.start(whole);
            gather.wait();
        }

        auto                       start_sum(std::span<std::int64_t> words) { return sums_.start(words); }
        std::vector<std::uint64_t> gather_values(std::uint64_t value) const { return sums_.ranks().gather_values(value); }

    private:
        using Engine    = typename Comm::Engine;
        using Reduction = decltype(std::declval<Comm const&>().template reduction<Master>(std::vector<state::Range>{}, comm::Wire::fp32,
                                                                                          comm::Reduction::ordered, 0));
        using Gather    = GatherTask<decltype(std::declval<Comm const&>().template all_gather<Compute>(std::vector<state::Range>{}, 0,
                                                                                                    comm::Reduction::ordered)),
                                  Compute, Engine>;

        static constexpr std::size_t none = static_cast<std::size_t>(-1);

        std::vector<std::vector<state::Range>> parts() const {
            std::vector<std::vector<state::Range>> result;
            for (state::Unit const& unit : units_) result.push_back(state::shards(unit, ranks()));
            return result;
        }
        std::vector<comm::Subject> subjects() const {
            std::vector<comm::Subject> result;
            for (std::size_t unit = units_.size(); unit-- > 0;)
                result.push_back({comm::Collective::reduce_scatter, "bucket", result.size(), 0,
                                  (units_[unit].size - parts_[unit][rank()].size()) * (wire_ == comm::Wire::bf16 ? 2 : sizeof(Master))});
            return result;
        }

        std::vector<Gather> gather_operations(comm::Reduction how) {
            std::vector<Gather> result;
            for (std::size_t copy = 0; copy < units_[0].copies(); ++copy)
                for (std::size_t unit = 0; unit < units_.size(); ++unit)
                    result.emplace_back(engine_, gathers_.template all_gather<Compute>(parts_[unit], static_cast<int>(result.size()), how),
                                        comm::Subject{comm::Collective::all_gather, "unit", unit, copy, gathered_bytes(unit)});
            return result;
        }
        std::size_t gathered_bytes(std::size_t unit) const { return parts_[unit][rank()].size() * sizeof(Compute) * (ranks() - 1); }

        std::vector<Reduction> reduction_operations(comm::Reduction how) const {
            std::vector<Reduction> result;
            for (std::size_t unit = units_.size(); unit-- > 0;)
                result.push_back(reductions_.template reduction<Master>(parts_[unit], wire_, how, static_cast<int>(result.size())));
            return result;
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
            require(collecting_[taken] == none, "parallel: the gradient of unit ", collecting_[taken],
                    " must be reduced before that of unit ", unit, " is collected");
            queue_.drain_until_free(full_gradients_[taken].span().data());
            collecting_[taken] = unit;
            return taken;
        }

        template <class T>
        std::span<T> shard(std::span<T> all, std::size_t unit) const {
            return all.subspan(shard_offsets_[unit], shard_offsets_[unit + 1] - shard_offsets_[unit]);
        }

        Engine                                                 engine_;
        Sums<Comm>                                             sums_;        // loss, norm and counts
        Comm                                                   reductions_;  // gradients
        Comm                                                   gathers_;     // weights
        std::span<state::Unit const>                           units_;
        std::vector<state::GradientBucket>                     buckets_;
        std::size_t                                            prefetch_;
        bool                                                   local_;
        comm::Wire                                             wire_;
        std::vector<std::vector<state::Range>>                 parts_;          // of each unit, one a rank
        std::vector<comm::Subject>                             subjects_;       // of each bucket
        std::vector<std::size_t>                               shard_offsets_;  // of this rank's part of each unit
        typename Storage::template Buffer<Compute>             weights_[2];     // this rank's shards, by copy
        typename Storage::template Buffer<Master>              gradients_;      // of this rank's shards
        GatheredUnits<Gather, Compute, Storage>                gathered_;
        std::vector<typename Storage::template Buffer<Master>> full_gradients_;  // of whole units, one of them the root
        std::vector<std::size_t>                               collecting_;      // unit of each of these, or none
        std::size_t                                            next_ = 1;
        std::vector<bool>                                      reduced_;  // since the last publish: further sums add up
        ReductionQueue<Reduction, Master, Storage, Engine>     queue_;
        std::uint64_t                                          bytes_sent_ = 0;
        Settled<Engine>                                        settled_{engine_};
    };
};

}  // namespace lockstep::parallel
