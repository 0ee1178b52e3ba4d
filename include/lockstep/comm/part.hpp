#pragma once
// Which range of a buffer belongs to which rank.

#include <concepts>
#include <cstddef>
#include <ranges>
#include <string_view>
#include <vector>

#include "lockstep/core/error.hpp"

namespace lockstep::comm {

/// Half-open range of elements that one rank owns.
struct Part {
    std::size_t begin = 0;
    std::size_t end   = 0;

    constexpr std::size_t size() const noexcept { return end - begin; }
    constexpr bool        operator==(Part const&) const = default;
};

/// One range of elements a rank, in rank order; uneven, empty, starting anywhere. A vector of `state::Range` is one.
template <class P>
concept parts_by_rank = std::ranges::input_range<P const> && requires(std::ranges::range_value_t<P const> part) {
    { part.begin } -> std::convertible_to<std::size_t>;
    { part.end } -> std::convertible_to<std::size_t>;
};

/// The same as a table of this room. Raises an input error unless there is one valid range for each rank.
template <parts_by_rank P>
std::vector<Part> part_table(P const& parts, int ranks, std::string_view operation) {
    std::vector<Part> table;
    for (auto const& part : parts) {
        table.push_back({part.begin, part.end});
        if (part.end < part.begin)
            input_error(operation, ": the part of rank ", table.size() - 1, " ends at ", part.end, " before it begins at ", part.begin);
    }
    if (table.size() != static_cast<std::size_t>(ranks))
        input_error(operation, ": expected a part for each of ", ranks, " ranks, found ", table.size());
    return table;
}

/// Equal parts of `count` elements each.
inline std::vector<Part> equal_parts(std::size_t count, int ranks) {
    std::vector<Part> table(static_cast<std::size_t>(ranks));
    for (std::size_t rank = 0; rank < table.size(); ++rank) table[rank] = {rank * count, (rank + 1) * count};
    return table;
}

}  // namespace lockstep::comm
