#pragma once
// Replicated (data parallel, Li et al. 2020, arXiv:2006.15704): every rank holds everything; buckets of gradients are summed
// over the ranks while backward goes on.

#include "lockstep/comm/fwd.hpp"
#include "lockstep/parallel/among_ranks.hpp"
#include "lockstep/parallel/reduction_queue.hpp"
#include "lockstep/parallel/unit_shards.hpp"  // summed_bytes
#include "lockstep/parallel/weight_buffers.hpp"

namespace lockstep::parallel {

template <class Comm = comm::Communicator>
struct Replicated {
    using Communicator = Comm;

    static constexpr bool shards_parameters = false;

    template <class Precision, class Storage>
    class Bound : public AmongRanks<Comm> {
        using Base = AmongRanks<Comm>;

    public:
        using Compute = typename Precision::compute;
        using Master  = typename Precision::master;
        using Base::rank, Base::ranks;

        Bound(Comm const& world, std::span<state::Unit const> units, Options const& options)
            : Base(world, options),
              reductions_(Base::duplicate(world, options)),
              units_(units),
              offsets_(state::unit_offsets(units)),
              buckets_(state::backward_buckets(units, std::min(options.first_bucket_bytes, options.bucket_bytes) / sizeof(Master),
                                               options.bucket_bytes / sizeof(Master))),
              weights_(units, observe::Category::parameters),
              gradients_(offsets_.back(), observe::Category::gradients),
              wire_(options.wire.value_or(comm::wire_of<typename Precision::reduce>)),
              subjects_(subjects()),
              queue_(engine(), operations(options.reduction), subjects_, options.in_flight, options.overlap) {}

        std::size_t shards() const noexcept { return 1; }

        Weights<Compute> acquire(std::size_t unit, Phase) {
            engine().advance();
            return weights_.whole(unit);
        }
        void              release(std::size_t, Phase) { engine().advance(); }
        std::span<Master> gradients(std::size_t unit) { return part(gradients_.span(), unit); }

        std::span<state::GradientBucket const> buckets() const noexcept { return buckets_; }
        bool                                   reduces_each_micro_step() const noexcept { return false; }

        void reduce(state::BucketIndex bucket) {
            Range const range = buckets_[bucket].range;
            Base::sends(subjects_[bucket].bytes);
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

    private:
        using Base::engine;
        using Engine    = typename Comm::Engine;
        using Reduction = ReductionOf<Comm, Master>;

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
                std::size_t const sent = summed_bytes(bucket.range.size(), ranks(), rank(), wire_bytes<Master>(wire_), sizeof(Master));
                result.push_back({comm::Collective::all_reduce, "bucket", result.size(), 0, sent});
            }
            return result;
        }

        template <class T>
        std::span<T> part(std::span<T> all, std::size_t unit) const {
            return all.subspan(offsets_[unit], offsets_[unit + 1] - offsets_[unit]);
        }

        Comm                                               reductions_;  // gradients
        std::span<state::Unit const>                       units_;
        std::vector<std::size_t>                           offsets_;
        std::vector<state::GradientBucket>                 buckets_;
        WeightBuffers<Compute, Storage>                    weights_;
        typename Storage::template Buffer<Master>          gradients_;
        comm::Wire                                         wire_;
        std::vector<comm::Subject>                         subjects_;  // of each bucket
        ReductionQueue<Reduction, Master, Storage, Engine> queue_;
        Settled<Engine>                                    settled_{engine()};
    };
};

}  // namespace lockstep::parallel
