#include "lockstep/state/unit.hpp"

#include <doctest/doctest.h>

#include <numeric>

namespace unit_test {

using namespace lockstep::state;
using lockstep::Range;

TEST_CASE("ranges intersect, and where they do not the result is empty") {
    CHECK(lockstep::intersect({2, 8}, {5, 12}) == Range{5, 8});
    CHECK(lockstep::intersect({0, 10}, {3, 4}) == Range{3, 4});
    CHECK(lockstep::intersect({0, 3}, {3, 6}).empty());
    CHECK(lockstep::intersect({7, 9}, {1, 2}).size() == 0);
    CHECK(Range{4, 9}.size() == 5);
}

TEST_CASE("a parameter finds its elements in the buffer of its unit") {
    std::vector<float> buffer(40);
    std::iota(buffer.begin(), buffer.end(), 0.0f);

    Parameter matrix;
    matrix.rows    = 3;
    matrix.columns = 5;
    matrix.map     = {3, 5, {.panel_rows = 2, .tile_columns = 4}};
    matrix.offset  = 4;
    CHECK(matrix.size() == 32);  // two panels of two tiles of 2 x 4
    CHECK(matrix.elements() == 15);
    CHECK(matrix.range() == Range{4, 36});
    CHECK(matrix.matrix(std::span(buffer))(0, 0) == 4);
    CHECK(matrix.matrix(std::span(buffer))(1, 4) == 4 + 8 + 4);
    CHECK(matrix.matrix(std::span(buffer))(2, 1) == 4 + 16 + 1);

    Parameter vector;
    vector.rows   = 4;
    vector.map    = {4, 1};
    vector.offset = 36;
    CHECK(vector.vector(std::span<float const>(buffer)).size() == 4);
    CHECK(vector.vector(std::span<float const>(buffer))[3] == 39);
}

TEST_CASE("padding does not count among the elements of units") {
    std::vector<Unit> units(2);
    Parameter         matrix, vector;
    matrix.rows = 3, matrix.columns = 5, matrix.map = {3, 5, {.panel_rows = 32, .tile_columns = 32}};
    vector.rows = 4, vector.map = {4, 1};
    units[0].parameters = {matrix, vector};
    units[1].parameters = {vector};
    CHECK(element_count(units) == 15 + 4 + 4);
}

}  // namespace unit_test
