#pragma once
// Gradient buckets: ranges of the flat gradient buffer that are reduced together, in the order in which backward fills them.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/state/unit.hpp"

namespace lockstep::state {

/// Index of a bucket, in the order in which they become ready.
using BucketIndex = std::size_t;

/// Where a unit's buffer begins inside the flat buffer of all units.
inline std::vector<std::size_t> unit_offsets(std::span<Unit const> units) {
    std::vector<std::size_t> offsets;
    std::size_t              offset = 0;
    for (Unit const& unit : units) {
        offsets.push_back(offset);
        offset += unit.size;
    }
    offsets.push_back(offset);
    return offsets;
}

/// Consecutive parameters whose gradients are reduced together.
struct GradientBucket {
    struct Member {
        std::size_t unit      = 0;
        std::size_t parameter = 0;
    };
    Range               range;  // of the flat gradient buffer
    std::vector<Member> members;
};

/// Cuts the flat gradient buffer from its end, the order of backward. A bucket is closed when it holds at least `elements`
/// (the first one `first_elements`, so that something is on its way early). 0 gives one bucket a parameter.
inline std::vector<GradientBucket> backward_buckets(std::span<Unit const> units, std::size_t first_elements, std::size_t elements) {
    std::vector<std::size_t> const offsets = unit_offsets(units);
    std::vector<GradientBucket>    buckets;
    bool                           open = false;
    for (std::size_t u = units.size(); u-- > 0;) {
        for (std::size_t p = units[u].parameters.size(); p-- > 0;) {
            Parameter const&  parameter = units[u].parameters[p];
            std::size_t const begin     = offsets[u] + parameter.offset;
            if (!open) buckets.push_back({{begin + parameter.size(), begin + parameter.size()}, {}});
            GradientBucket& bucket = buckets.back();
            bucket.range.begin     = begin;
            bucket.members.push_back({u, p});
            open = bucket.range.size() < (buckets.size() == 1 ? first_elements : elements);
        }
    }
    return buckets;
}

/// One bucket a unit, the last unit first.
inline std::vector<GradientBucket> unit_buckets(std::span<Unit const> units) {
    std::vector<std::size_t> const offsets = unit_offsets(units);
    std::vector<GradientBucket>    buckets;
    for (std::size_t u = units.size(); u-- > 0;) {
        buckets.push_back({{offsets[u], offsets[u + 1]}, {}});
        for (std::size_t p = 0; p < units[u].parameters.size(); ++p) buckets.back().members.push_back({u, p});
    }
    return buckets;
}

/// Counts contributions during a backward pass and tells when a bucket has its last one.
class Readiness {
public:
    Readiness(std::span<Unit const> units, std::span<GradientBucket const> buckets) : units_(units), buckets_(buckets) {
        for (Unit const& unit : units) missing_.emplace_back(unit.parameters.size());
        for (Unit const& unit : units) bucket_of_.emplace_back(unit.parameters.size());
        for (BucketIndex b = 0; b < buckets.size(); ++b)
            for (auto [unit, parameter] : buckets[b].members) bucket_of_[unit][parameter] = b;
        open_.resize(buckets.size());
        restart();
    }

    /// To be called before each backward pass.
    void restart() noexcept {
        for (std::size_t u = 0; u < units_.size(); ++u)
            for (std::size_t p = 0; p < missing_[u].size(); ++p) missing_[u][p] = units_[u].parameters[p].uses;
        for (BucketIndex b = 0; b < buckets_.size(); ++b) open_[b] = buckets_[b].members.size();
    }

    /// One use of a parameter has added its gradient. Returns the bucket that this completed, if it did.
    std::optional<BucketIndex> contributed(std::size_t unit, std::size_t parameter) noexcept {
        if (buckets_.empty() || --missing_[unit][parameter] != 0) return std::nullopt;
        BucketIndex const bucket = bucket_of_[unit][parameter];
        if (--open_[bucket] != 0) return std::nullopt;
        return bucket;
    }

private:
    std::span<Unit const>                   units_;
    std::span<GradientBucket const>         buckets_;
    std::vector<std::vector<std::uint32_t>> missing_;
    std::vector<std::vector<BucketIndex>>   bucket_of_;
    std::vector<std::size_t>                open_;
};

}  // namespace lockstep::state
