#pragma once
// Who owns which range of a unit.

#include <algorithm>
#include <vector>

#include "lockstep/state/unit.hpp"

namespace lockstep::state {

/// The first boundary of granules at or after a position of a unit's buffer.
inline std::size_t granule_boundary(Unit const& unit, std::size_t position) {
    for (Parameter const& parameter : unit.parameters) {
        if (position >= parameter.offset + parameter.size()) continue;
        if (position <= parameter.offset) return parameter.offset;
        std::size_t const granule = parameter.map.granule();
        return parameter.offset + (position - parameter.offset + granule - 1) / granule * granule;
    }
    return unit.size;
}

/// Cuts a range of a unit, whole granules, into one range a rank: whole granules, as even as possible, the later ones shorter or empty.
/// Without granules: 7 over 4 ranks is 2,2,2,1; 5 over 4 is 2,2,1,0.
inline std::vector<Range> shards(Unit const& unit, Range whole, std::size_t ranks) {
    std::size_t const  chunk = (whole.size() + ranks - 1) / ranks;
    std::vector<Range> result(ranks);
    std::size_t        begin = whole.begin;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        std::size_t const end = std::min(whole.end, granule_boundary(unit, std::min(whole.end, whole.begin + (rank + 1) * chunk)));
        result[rank]          = {begin, end};
        begin                 = end;
    }
    return result;
}

/// The same for all of a unit.
inline std::vector<Range> shards(Unit const& unit, std::size_t ranks) { return shards(unit, {0, unit.size}, ranks); }

/// The same for a plain range of elements, whose granule is one.
inline std::vector<Range> even_ranges(Range whole, std::size_t ranks) {
    std::size_t const  chunk = (whole.size() + ranks - 1) / ranks;
    std::vector<Range> result(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank)
        result[rank] = {whole.begin + std::min(whole.size(), rank * chunk), whole.begin + std::min(whole.size(), (rank + 1) * chunk)};
    return result;
}

}  // namespace lockstep::state
