#include "lockstep/state/shard.hpp"

#include <doctest/doctest.h>

namespace shard_test {

using namespace lockstep::state;
using lockstep::Range;

/// A unit of matrices that lie one after the other, with room to spare at the end.
Unit unit_of(std::vector<MatrixMap> const& maps, std::size_t spare = 0) {
    Unit unit;
    for (MatrixMap const& map : maps) {
        Parameter parameter;
        parameter.rows    = map.rows();
        parameter.columns = map.columns();
        parameter.map     = map;
        parameter.offset  = unit.size;
        unit.parameters.push_back(parameter);
        unit.size += map.size();
    }
    unit.size += spare;
    return unit;
}

std::string sizes(std::vector<Range> const& ranges) {
    std::string result;
    for (Range const& range : ranges) result += std::to_string(range.size()) + " ";
    return result;
}

bool cover(std::vector<Range> const& ranges, std::size_t size) {
    std::size_t begin = 0;
    for (Range const& range : ranges) {
        if (range.begin != begin || range.end < range.begin) return false;
        begin = range.end;
    }
    return begin == size;
}

TEST_CASE("TRAPS 16: shards that do not come out even") {
    struct Case {
        std::size_t size, ranks;
        char const* expected;
    };
    for (Case const& c : {Case{7, 4, "2 2 2 1 "}, Case{7, 3, "3 3 1 "}, Case{5, 4, "2 2 1 0 "}, Case{3, 4, "1 1 1 0 "}}) {
        CHECK(sizes(shards(unit_of({MatrixMap(c.size, 1)}), c.ranks)) == c.expected);
        CHECK(sizes(even_ranges({0, c.size}, c.ranks)) == c.expected);
        CHECK(cover(shards(unit_of({MatrixMap(c.size, 1)}), c.ranks), c.size));
    }
}

TEST_CASE("shards cover a unit without gap or overlap and end on granules, however many ranks") {
    Layout const tiles{.panel_rows = 4, .tile_columns = 4};
    Unit const   unit = unit_of({MatrixMap(9, 1), MatrixMap(10, 6, tiles), MatrixMap(5, 7), MatrixMap(3, 1), MatrixMap(8, 8, tiles)}, 5);
    for (std::size_t ranks = 1; ranks <= unit.size + 2; ++ranks) {
        std::vector<Range> const ranges = shards(unit, ranks);
        CHECK(ranges.size() == ranks);
        CHECK(cover(ranges, unit.size));
        for (Range const& range : ranges) {
            bool on_granule = range.end == unit.size;
            for (Parameter const& parameter : unit.parameters)
                if (parameter.offset <= range.end && range.end <= parameter.offset + parameter.size())
                    on_granule = on_granule || (range.end - parameter.offset) % parameter.map.granule() == 0;
            CHECK(on_granule);
            CHECK(range.size() < (unit.size + ranks - 1) / ranks + 32);  // 32: the largest granule
        }
    }
}

TEST_CASE("a shard cut again is covered by whole granules") {
    Layout const tiles{.panel_rows = 4, .tile_columns = 4};
    Unit const   unit = unit_of({MatrixMap(9, 1), MatrixMap(10, 6, tiles), MatrixMap(5, 7), MatrixMap(8, 8, tiles)}, 5);
    CHECK(shards(unit, {0, unit.size}, 3) == shards(unit, 3));
    for (std::size_t ranks : {1u, 2u, 3u, 7u})
        for (Range const& shard : shards(unit, ranks))
            for (std::size_t groups : {1u, 2u, 5u}) {
                std::vector<Range> const parts = shards(unit, shard, groups);
                REQUIRE(parts.size() == groups);
                CHECK(parts.front().begin == shard.begin);
                CHECK(parts.back().end == shard.end);
                for (std::size_t g = 1; g < groups; ++g) CHECK(parts[g].begin == parts[g - 1].end);
                for (Range const& part : parts) {
                    CHECK(part.begin <= part.end);
                    bool const at_granule = granule_boundary(unit, part.end) == part.end,
                               after_last = granule_boundary(unit, part.end - 1) == part.end;
                    CHECK((part.end == shard.end || part.empty() || at_granule || after_last));
                }
            }
}

TEST_CASE("a unit smaller than a granule a rank leaves ranks without a shard") {
    Unit const unit = unit_of({MatrixMap(8, 32, {.panel_rows = 8, .tile_columns = 32})});
    CHECK(sizes(shards(unit, 3)) == "256 0 0 ");
    CHECK(sizes(shards(Unit{}, 2)) == "0 0 ");
}

TEST_CASE("even ranges begin where the whole begins") {
    std::vector<Range> const ranges = even_ranges({10, 17}, 4);
    CHECK(ranges == std::vector<Range>{{10, 12}, {12, 14}, {14, 16}, {16, 17}});
    CHECK(sizes(even_ranges({5, 5}, 2)) == "0 0 ");
}

}  // namespace shard_test
