#pragma once
// Single: one rank holds everything and nothing travels. The reference of all other strategies; needs no MPI.

#include "lockstep/parallel/strategy.hpp"
#include "lockstep/parallel/weight_buffers.hpp"

namespace lockstep::parallel {

/// The communicator of a process that is alone.
struct Alone {};

struct Single {
    using Communicator = Alone;

    static constexpr bool shards_parameters = false;

    template <class Precision, class Storage>
    class Bound {
    public:
        using Compute = typename Precision::compute;
        using Master  = typename Precision::master;

        Bound(Alone, std::span<state::Unit const> units, Options const& = {})
            : offsets_(state::unit_offsets(units)),
              weights_(units, observe::Category::parameters),
              gradients_(offsets_.back(), observe::Category::gradients) {}

        std::size_t      rank() const noexcept { return 0; }
        std::size_t      ranks() const noexcept { return 1; }
        std::size_t      shards() const noexcept { return 1; }
        std::uint64_t    bytes_sent() const noexcept { return 0; }
        std::string_view progress() const noexcept { return "none"; }

        Weights<Compute>  acquire(std::size_t unit, Phase) { return weights_.whole(unit); }
        void              release(std::size_t, Phase) noexcept {}
        std::span<Master> gradients(std::size_t unit) { return part(gradients_.span(), unit); }

        std::span<state::GradientBucket const> buckets() const noexcept { return {}; }
        bool                                   reduces_each_micro_step() const noexcept { return false; }
        void                                   reduce(state::BucketIndex) noexcept {}
        void                                   wait() noexcept {}

        Owned<Compute, Master> owned(std::size_t unit) {
            Range const all{0, offsets_[unit + 1] - offsets_[unit]};
            return {all, weights_.forward(unit), weights_.input_grad(unit), part(gradients_.span(), unit), all};
        }
        void publish() noexcept {}
        void assemble(std::size_t, std::span<Master>) noexcept {}

        struct Nothing {
            void wait() noexcept {}
        };
        Nothing                    start_sum(std::span<std::int64_t>) noexcept { return {}; }
        std::vector<std::uint64_t> gather_values(std::uint64_t value) const { return {value}; }

    private:
        template <class T>
        std::span<T> part(std::span<T> all, std::size_t unit) const {
            return all.subspan(offsets_[unit], offsets_[unit + 1] - offsets_[unit]);
        }

        std::vector<std::size_t>                  offsets_;
        WeightBuffers<Compute, Storage>           weights_;
        typename Storage::template Buffer<Master> gradients_;
    };
};
static_assert(strategy<Single>);

}  // namespace lockstep::parallel
