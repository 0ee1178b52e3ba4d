#pragma once
// Replicated (data parallel, Li et al. 2020, arXiv:2006.15704): every rank holds everything; buckets of gradients are summed
// over the ranks while backward goes on.

#include "lockstep/comm/fwd.hpp"
#include "lockstep/parallel/communicator.hpp"
#include "lockstep/parallel/progress.hpp"
#include "lockstep/parallel/reduction_queue.hpp"
#include "lockstep/parallel/strategy.hpp"
#include "lockstep/parallel/weight_buffers.hpp"
#include "lockstep/state/shard.hpp"

namespace lockstep::parallel {

template <class Comm = comm::Communicator>
struct Replicated {
    using Communicator = Comm;

    static constexpr bool shards_parameters = false;

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
              units_(units),
              offsets_(state::unit_offsets(units)),
              buckets_(state::backward_buckets(units, std::min(options.first_bucket_bytes, options.bucket_bytes) / sizeof(Master),
                                               options.bucket_bytes / sizeof(Master))),
              weights_(units, observe::Category::parameters),
              gradients_(offsets_.back(), observe::Category::gradients),
              wire_(options.wire.value_or(comm::wire_of<typename Precision::reduce>)),
              subjects_(subjects()),
              queue_(engine_, operations(options.reduction), subjects_, options.in_flight, options.overlap) {}

        std::size_t      rank() const noexcept { return static_cast<std::size_t>(sums_.ranks().rank()); }
        std::size_t      ranks() const noexcept { return static_cast<std::size_t>(sums_.ranks().size()); }
        std::uint64_t    bytes_sent() const noexcept { return bytes_sent_; }
        std::string_view progress() const noexcept { return comm::name(engine_.policy()); }

        Weights<Compute> acquire(std::size_t unit, Phase) {
            engine_.advance();
            return weights_.whole(unit);
        }
        void              release(std::size_t, Phase) { engine_.advance(); }
        std::span<Master> gradients(std::size_t unit) { return part(gradients_.span(), unit); }

        std::span<state::GradientBucket const> buckets() const noexcept { return buckets_; }
        bool                                   reduces_each_micro_step() const noexcept { return false; }

        void reduce(state::BucketIndex bucket) {
            state::Range const range = buckets_[bucket].range;
            bytes_sent_ += subjects_[bucket].bytes;
            queue_.submit({.operation = bucket,
                           .buffer    = gradients_.span().subspan(range.begin, range.size()),
                           .mine      = {},
                           .result    = comm::Result::gathered});
        }
        void wait() { queue_.drain(); }

        Owned<Compute, Master> owned(std::size_t unit) {
            return {{0, units_[unit].size},
                    weights_.forward(unit),
                    weights_.input_grad(unit),
                    part(gradients_.span(), unit),
                    state::shards(units_[unit], ranks())[rank()]};
        }
        void publish() noexcept {}
        void assemble(std::size_t, std::span<Master>) noexcept {}

        auto                       start_sum(std::span<std::int64_t> words) { return sums_.start(words); }
        std::vector<std::uint64_t> gather_values(std::uint64_t value) const { return sums_.ranks().gather_values(value); }

    private:
        using Engine    = typename Comm::Engine;
        using Reduction = decltype(std::declval<Comm const&>().template reduction<Master>(std::vector<state::Range>{}, comm::Wire::fp32,
                                                                                          comm::Reduction::ordered, 0));

        std::vector<Reduction> operations(comm::Reduction how) const {
            std::vector<Reduction> result;
            for (state::GradientBucket const& bucket : buckets_)
                result.push_back(reductions_.template reduction<Master>(state::even_ranges({0, bucket.range.size()}, ranks()), wire_, how,
                                                                        static_cast<int>(result.size())));
            return result;
        }
        std::vector<comm::Subject> subjects() const {
            std::vector<comm::Subject> result;
            for (state::GradientBucket const& bucket : buckets_) {
                std::size_t const mine = state::even_ranges(bucket.range, ranks())[rank()].size();
                std::size_t const sent =
                    (bucket.range.size() - mine) * (wire_ == comm::Wire::bf16 ? 2 : sizeof(Master)) + mine * (ranks() - 1) * sizeof(Master);
                result.push_back({comm::Collective::all_reduce, "bucket", result.size(), 0, sent});
            }
            return result;
        }

        template <class T>
        std::span<T> part(std::span<T> all, std::size_t unit) const {
            return all.subspan(offsets_[unit], offsets_[unit + 1] - offsets_[unit]);
        }

        Engine                                             engine_;
        Sums<Comm>                                         sums_;        // loss, norm and counts
        Comm                                               reductions_;  // gradients
        std::span<state::Unit const>                       units_;
        std::vector<std::size_t>                           offsets_;
        std::vector<state::GradientBucket>                 buckets_;
        WeightBuffers<Compute, Storage>                    weights_;
        typename Storage::template Buffer<Master>          gradients_;
        comm::Wire                                         wire_;
        std::vector<comm::Subject>                         subjects_;  // of each bucket
        ReductionQueue<Reduction, Master, Storage, Engine> queue_;
        std::uint64_t                                      bytes_sent_ = 0;
        Settled<Engine>                                    settled_{engine_};
    };
};

}  // namespace lockstep::parallel
