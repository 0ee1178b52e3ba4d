#pragma once
// Which range of a buffer belongs to which rank.

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/range.hpp"

namespace lockstep::comm {

/// The parts of a buffer, one a rank in rank order; uneven, empty, starting anywhere. Raises an input error unless each rank has one.
inline std::vector<Range> part_table(std::span<Range const> parts, int ranks, std::string_view operation) {
    for (Range const& part : parts)
        if (part.end < part.begin)
            input_error(operation, ": the part of rank ", &part - parts.data(), " ends at ", part.end, " before it begins at ", part.begin);
    if (parts.size() != static_cast<std::size_t>(ranks))
        input_error(operation, ": expected a part for each of ", ranks, " ranks, found ", parts.size());
    return {parts.begin(), parts.end()};
}

/// Equal parts of `count` elements each.
inline std::vector<Range> equal_parts(std::size_t count, int ranks) {
    std::vector<Range> table(static_cast<std::size_t>(ranks));
    for (std::size_t rank = 0; rank < table.size(); ++rank) table[rank] = {rank * count, (rank + 1) * count};
    return table;
}

}  // namespace lockstep::comm
