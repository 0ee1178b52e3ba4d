#pragma once
// Units cut into a shard a rank, and the operations that collect their weights and sum their gradients.

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/comm/task.hpp"
#include "lockstep/comm/wire.hpp"
#include "lockstep/state/shard.hpp"

namespace lockstep::parallel {

class UnitShards {
public:
    /// Of these ranks, `mine` is this one.
    UnitShards(std::span<state::Unit const> units, std::size_t ranks, std::size_t mine) : mine_(mine), offsets_{0} {
        for (state::Unit const& unit : units) {
            parts_.push_back(state::shards(unit, ranks));
            offsets_.push_back(offsets_.back() + parts_.back()[mine].size());
        }
    }

    std::size_t               units() const noexcept { return parts_.size(); }
    std::size_t               ranks() const noexcept { return parts_[0].size(); }
    std::vector<Range> const& parts(std::size_t unit) const noexcept { return parts_[unit]; }
    Range                     mine(std::size_t unit) const noexcept { return parts_[unit][mine_]; }

    /// Elements of this rank's shards, and those of one unit in a buffer that holds them one after another.
    std::size_t elements() const noexcept { return offsets_.back(); }
    template <class T>
    std::span<T> packed(std::span<T> all, std::size_t unit) const noexcept {
        return all.subspan(offsets_[unit], offsets_[unit + 1] - offsets_[unit]);
    }
    /// This rank's shard in a buffer of the whole unit.
    template <class T>
    std::span<T> within(std::span<T> whole, std::size_t unit) const noexcept {
        return whole.subspan(mine(unit).begin, mine(unit).size());
    }

    /// Bytes that this rank sends when the weights of a unit are collected, and when its gradients are summed and scattered.
    std::size_t gathered_bytes(std::size_t unit, std::size_t element) const noexcept { return mine(unit).size() * element * (ranks() - 1); }
    std::size_t scattered_bytes(std::size_t unit, std::size_t element) const noexcept {
        return (parts_[unit].back().end - mine(unit).size()) * element;
    }

private:
    std::size_t                     mine_;
    std::vector<std::vector<Range>> parts_;    // of each unit, one a rank
    std::vector<std::size_t>        offsets_;  // of this rank's part of each unit
};

/// Bytes of an element of a gradient on its way.
template <class Master>
constexpr std::size_t wire_bytes(comm::Wire wire) noexcept {
    return wire == comm::Wire::bf16 ? 2 : sizeof(Master);
}

/// Bytes that one of some ranks sends when they sum a buffer and all need the sums: what it contributes to the others' even parts, of
/// `contribution` bytes an element, then the sums of its own part, of `sum` bytes an element, to each of them.
inline std::size_t summed_bytes(std::size_t elements, std::size_t ranks, std::size_t rank, std::size_t contribution, std::size_t sum) {
    std::size_t const mine = state::even_ranges({0, elements}, ranks)[rank].size();
    return (elements - mine) * contribution + mine * (ranks - 1) * sum;
}

/// What the sums of whole units are, in the order of `state::unit_buckets`; `bytes(unit)` is what this rank sends for one.
template <class Bytes>
std::vector<comm::Subject> unit_subjects(std::size_t units, Bytes const& bytes) {
    std::vector<comm::Subject> result;
    for (std::size_t unit = units; unit-- > 0;)
        result.push_back({comm::Collective::reduce_scatter, "bucket", result.size(), 0, bytes(unit)});
    return result;
}

/// Collect each copy of the weights of each unit in place: `result[copy * units + unit]`. `Gather` is a `GatherOf`.
template <class Gather, class Compute, class Engine, class Comm>
std::vector<Gather> unit_gathers(Engine& engine, Comm const& ranks, UnitShards const& shards, std::size_t copies, comm::Reduction how) {
    std::vector<Gather> result;
    for (std::size_t copy = 0; copy < copies; ++copy)
        for (std::size_t unit = 0; unit < shards.units(); ++unit)
            result.emplace_back(
                engine, ranks.template all_gather<Compute>(shards.parts(unit), static_cast<int>(result.size()), how),
                comm::Subject{comm::Collective::all_gather, "unit", unit, copy, shards.gathered_bytes(unit, sizeof(Compute))});
    return result;
}

/// Collects on every rank the whole of a buffer of which each has filled its shard. `gathers` has one operation for each unit and copy.
template <class Master, class Comm>
void assemble_shards(Comm const& gathers, UnitShards const& shards, std::size_t unit, std::span<Master> whole) {
    auto gather = gathers.template all_gather<Master>(shards.parts(unit), static_cast<int>(2 * shards.units() + unit));
    gather.start(whole);
    gather.wait();
}

}  // namespace lockstep::parallel
