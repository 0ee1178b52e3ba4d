#pragma once
// A part of a unit's buffer as row-major elements of a parameter: what a file holds, whatever the layout and the shards.

#include <algorithm>
#include <vector>

#include "lockstep/state/unit.hpp"

namespace lockstep::state {

/// The elements of a parameter that lie in a range of its unit's buffer, as ranges of row-major indices: sorted, apart from each other,
/// without padding. One range where the range of the buffer is whole granules.
inline std::vector<Range> row_major_ranges(Parameter const& parameter, Range held) {
    std::vector<Range> ranges;
    auto const         add = [&](std::size_t begin, std::size_t end) {
        if (!ranges.empty() && ranges.back().end == begin)
            ranges.back().end = end;
        else if (begin != end)
            ranges.push_back({begin, end});
    };
    Range const       part    = intersect(parameter.range(), held);
    MatrixMap const&  map     = parameter.map;
    std::size_t const columns = parameter.columns, height = map.panel_rows();
    for (std::size_t row = 0; row < parameter.rows && !part.empty(); row += height) {
        std::size_t const begin = parameter.offset + row / height * map.granule(), end = begin + map.granule();
        std::size_t const rows = std::min(parameter.rows, row + height);
        if (end <= part.begin || begin >= part.end) continue;
        if (begin >= part.begin && end <= part.end) {
            add(row * columns, rows * columns);
            continue;
        }
        for (std::size_t element = row * columns; element < rows * columns; ++element)  // a panel that is cut
            if (std::size_t const place = parameter.offset + map(element / columns, element % columns);
                place >= part.begin && place < part.end)
                add(element, element + 1);
    }
    return ranges;
}

/// Calls visit(element, place, count, stride) for neighbours whose places in the unit's buffer have a constant distance: row-major
/// elements `element` .. `element + count - 1` lie at `place`, `place + stride`, ...
template <class Visit>
void for_each_run(Parameter const& parameter, Range elements, Visit const& visit) {
    MatrixMap const& map = parameter.map;
    if (map.row_major()) {
        if (!elements.empty()) visit(elements.begin, parameter.offset + elements.begin, elements.size(), std::size_t{1});
        return;
    }
    for (std::size_t element = elements.begin; element < elements.end;) {
        std::size_t const row = element / parameter.columns, column = element % parameter.columns;
        std::size_t const count =
            std::min({map.run() - column % map.tile_columns() % map.run(), map.tile_columns() - column % map.tile_columns(),
                      parameter.columns - column, elements.end - element});
        std::size_t const place = map(row, column);
        visit(element, parameter.offset + place, count, count > 1 ? map(row, column + 1) - place : 1);
        element += count;
    }
}

}  // namespace lockstep::state
