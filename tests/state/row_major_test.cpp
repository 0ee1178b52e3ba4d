// Parts of a unit's buffer as row-major elements, against a count of every element.

#include "lockstep/state/row_major.hpp"

#include <doctest/doctest.h>

#include <numeric>

namespace row_major_test {

using namespace lockstep::state;
using lockstep::Range;

Parameter parameter(std::size_t rows, std::size_t columns, Layout layout, std::size_t offset) {
    return {.name       = "p",
            .rows       = rows,
            .columns    = columns,
            .dimensions = columns > 1 ? 2 : 1,
            .map        = {rows, columns, layout},
            .offset     = offset,
            .initial    = {}};
}

std::vector<Parameter> parameters() {
    return {parameter(7, 5, {}, 0),
            parameter(7, 5, {}, 11),
            parameter(9, 1, {}, 3),
            parameter(9, 1, {.panel_rows = 4}, 3),
            parameter(7, 5, {4, 3, TileOrder::rows}, 8),
            parameter(9, 7, {4, 3, TileOrder::columns}, 8),
            parameter(50, 37, {32, 32, TileOrder::rows, true}, 64),
            parameter(50, 37, {32, 32, TileOrder::column_pairs}, 0),
            parameter(50, 37, {32, 32, TileOrder::row_pairs}, 0)};
}

std::size_t place(Parameter const& p, std::size_t element) { return p.offset + p.map(element / p.columns, element % p.columns); }

void check(Parameter const& p, Range held) {
    std::vector<bool> expected(p.elements()), found(p.elements());
    for (std::size_t e = 0; e < p.elements(); ++e) expected[e] = place(p, e) >= held.begin && place(p, e) < held.end;
    std::size_t end = 0;
    for (Range const range : row_major_ranges(p, held)) {
        CHECK((range.begin > end || (range.begin == 0 && end == 0)));
        CHECK(range.end > range.begin);
        REQUIRE(range.end <= p.elements());
        for (std::size_t e = range.begin; e < range.end; ++e) found[e] = true;
        end = range.end;
    }
    CHECK(found == expected);
}

TEST_CASE("the ranges are exactly the elements that lie in the held part, wherever it is cut") {
    for (Parameter const& p : parameters()) {
        std::size_t const end = p.offset + p.size() + 5, step = end > 300 ? 97 : 1;
        for (std::size_t a = 0; a <= end; a += step)
            for (std::size_t b = a; b <= end; b += step) check(p, {a, b});
    }
}

TEST_CASE("whole granules are one range of whole rows") {
    for (Parameter const& p : parameters()) {
        std::size_t const granule = p.map.granule(), height = p.map.panel_rows(), panels = p.size() / granule;
        for (std::size_t a = 0; a < panels; ++a)
            for (std::size_t b = a + 1; b <= panels; ++b) {
                auto const ranges = row_major_ranges(p, {p.offset + a * granule, p.offset + b * granule});
                REQUIRE(ranges.size() == 1);
                CHECK((ranges[0] == Range{a * height * p.columns, std::min(p.rows, b * height) * p.columns}));
            }
    }
}

TEST_CASE("runs visit every element once, in order and at its place") {
    for (Parameter const& p : parameters())
        for (Range const part : {Range{0, p.elements()}, Range{3, p.elements() - 2}, Range{4, 4}, Range{1, 2}}) {
            std::size_t next = part.begin;
            for_each_run(p, part, [&](std::size_t element, std::size_t at, std::size_t count, std::size_t stride) {
                CHECK(element == next);
                CHECK(count > 0);
                for (std::size_t i = 0; i < count; ++i) CHECK(at + i * stride == place(p, element + i));
                next += count;
            });
            CHECK(next == part.end);
        }
}

}  // namespace row_major_test
