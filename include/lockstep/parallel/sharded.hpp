#pragma once
// Sharded (ZeRO-3, Rajbhandari et al. 2020, arXiv:1910.02054; FSDP, Zhao et al. 2023, arXiv:2304.11277): a rank keeps its shard of
// every unit. Weights are gathered before they are used, gradients reduce-scattered after they are complete.

#include "lockstep/comm/fwd.hpp"
#include "lockstep/parallel/sharded_units.hpp"

namespace lockstep::parallel {

template <class Comm = comm::Communicator>
struct Sharded {
    using Communicator = Comm;

    static constexpr bool shards_parameters = true;

    template <class Precision, class Storage>
    class Bound : public ShardedUnits<Comm, Precision, Storage> {
    public:
        Bound(Comm const& world, std::span<state::Unit const> units, Options const& options)
            : ShardedUnits<Comm, Precision, Storage>(world, {world.duplicate(), {}}, units, options) {}
    };
};

}  // namespace lockstep::parallel
