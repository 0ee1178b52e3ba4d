#pragma once
// HybridSharded (HSDP, Zhao et al. 2023, arXiv:2304.11277, section 3.2.2): ranks in groups of `Options::shard_group`. A group holds the
// model once, sharded; weights travel inside it alone. Gradients are reduce-scattered inside, then each shard is summed between groups.

#include "lockstep/comm/fwd.hpp"
#include "lockstep/parallel/sharded_units.hpp"

namespace lockstep::parallel {

/// The bits are those of `Sharded` for every size of group. Where it is no power of two, sums inside a group are no part of the tree over
/// all ranks: then contributions go to all groups unreduced, which is as many times the traffic between them as a group has ranks.
/// One group of all ranks is `Sharded`; groups of one rank are replicas that gather nothing.
template <class Comm = comm::Communicator>
struct HybridSharded {
    using Communicator = Comm;

    static constexpr bool shards_parameters = true;

    template <class Precision, class Storage>
    class Bound : public ShardedUnits<Comm, Precision, Storage> {
        static_assert(splits<Comm>,
                      "lockstep: Communicator must split into groups to run with HybridSharded; see lockstep/parallel/communicator.hpp");

    public:
        Bound(Comm const& world, std::span<state::Unit const> units, Options const& options)
            : ShardedUnits<Comm, Precision, Storage>(world, groups(world, options.shard_group), units, options) {}

    private:
        /// Collective.
        static Groups<Comm> groups(Comm const& world, std::size_t size) {
            std::size_t const ranks = static_cast<std::size_t>(world.size()), rank = static_cast<std::size_t>(world.rank());
            if (size != 0 && ranks % size != 0) input_error("shard_group: expected a divisor of the ", ranks, " ranks, found ", size);
            if (size == 0 || size == ranks) return {world.duplicate(), {}};
            return {world.split(static_cast<int>(rank / size), static_cast<int>(rank)),
                    world.split(static_cast<int>(rank % size), static_cast<int>(rank))};
        }
    };
};

}  // namespace lockstep::parallel
