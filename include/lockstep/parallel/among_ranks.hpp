#pragma once
// What all strategies of several ranks have in common: the engine that carries their collectives forward, and what they say of themselves.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/parallel/communicator.hpp"
#include "lockstep/parallel/progress.hpp"
#include "lockstep/parallel/strategy.hpp"

namespace lockstep::parallel {

/// An operation of a communicator that sums gradients.
template <class Comm, class Master>
using ReductionOf =
    decltype(std::declval<Comm const&>().template reduction<Master>(std::vector<Range>{}, comm::Wire::fp32, comm::Reduction::ordered, 0));

/// A task that collects weights.
template <class Comm, class Compute>
using GatherOf =
    GatherTask<decltype(std::declval<Comm const&>().template all_gather<Compute>(std::vector<Range>{}, 0, comm::Reduction::ordered)),
               Compute, typename Comm::Engine>;

/// The verbs that are the same in each of them. What derives from it ends with a `Settled` member.
template <class Comm>
class AmongRanks {
    static_assert(communicator<Comm>,
                  "lockstep: Communicator must know its rank, duplicate itself, make operations and agree; see "
                  "lockstep/parallel/communicator.hpp");

public:
    using Engine = typename Comm::Engine;

    AmongRanks(Comm const& world, Options const& options)
        : engine_(engine_settings(world, options)), sums_(engine_, duplicate(world, options)) {}

    std::size_t      rank() const noexcept { return static_cast<std::size_t>(sums_.ranks().rank()); }
    std::size_t      ranks() const noexcept { return static_cast<std::size_t>(sums_.ranks().size()); }
    std::uint64_t    bytes_sent() const noexcept { return bytes_sent_; }
    std::string_view progress() const noexcept { return comm::name(engine_.policy()); }

    auto                       start_sum(std::span<std::int64_t> words) { return sums_.start(words); }
    std::vector<std::uint64_t> gather_values(std::uint64_t value) const { return sums_.ranks().gather_values(value); }

protected:
    ~AmongRanks() = default;

    Engine& engine() noexcept { return engine_; }
    void    sends(std::size_t bytes) noexcept { bytes_sent_ += bytes; }

    /// The same ranks with messages of their own and the limits of the options. Collective.
    Comm duplicate(Comm const& ranks, Options const& options) const { return duplicate_with(ranks, options, engine_.policy()); }

private:
    Engine        engine_;
    Sums<Comm>    sums_;  // loss, norm and counts
    std::uint64_t bytes_sent_ = 0;
};

}  // namespace lockstep::parallel
