#include "lockstep/state/layout.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace layout_test {

using lockstep::state::Layout;
using lockstep::state::Matrix;
using lockstep::state::MatrixMap;
using lockstep::state::TileOrder;

std::vector<Layout> const layouts{
    {},
    {.order = TileOrder::columns},
    {.panel_rows = 4},
    {.panel_rows = 32, .tile_columns = 32},
    {.panel_rows = 32, .tile_columns = 32, .order = TileOrder::columns},
    {.panel_rows = 1, .tile_columns = 8},
    {.panel_rows = 1, .tile_columns = 8, .order = TileOrder::columns},
    {.panel_rows = 3, .tile_columns = 5, .order = TileOrder::columns},
    {.panel_rows = 32, .tile_columns = 32, .order = TileOrder::column_pairs},
    {.panel_rows = 32, .tile_columns = 32, .order = TileOrder::row_pairs},
    {.panel_rows = 16, .tile_columns = 4, .order = TileOrder::column_pairs},
    {.panel_rows = 2, .tile_columns = 48, .order = TileOrder::row_pairs},
};

template <class F>
void for_each_map(F const& f) {
    for (Layout const& layout : layouts)
        for (std::size_t rows : {1u, 3u, 7u, 32u, 33u, 60u})
            for (std::size_t columns : {1u, 5u, 8u, 16u, 33u, 64u}) f(MatrixMap(rows, columns, layout));
}

TEST_CASE("a layout is a permutation: each element has a place of its own, the rest is padding") {
    for_each_map([](MatrixMap const& map) {
        std::vector<int> hits(map.size());
        bool             inside = true;
        for (std::size_t r = 0; r < map.rows(); ++r)
            for (std::size_t c = 0; c < map.columns(); ++c) {
                std::size_t const at = map(r, c);
                inside               = inside && at < map.size() && at == map(r, 0) + map(0, c);
                if (at < map.size()) ++hits[at];
            }
        CHECK(inside);
        std::size_t once = 0, padding = 0;
        for (int hit : hits) {
            once += hit == 1;
            padding += hit == 0;
        }
        CHECK(once == map.rows() * map.columns());
        CHECK(once + padding == map.size());
    });
}

TEST_CASE("a layout that says row_major is row-major") {
    std::size_t said = 0, silent = 0;
    for_each_map([&](MatrixMap const& map) {
        bool rows_follow = map.size() == map.rows() * map.columns();
        for (std::size_t r = 0; r < map.rows(); ++r)
            for (std::size_t c = 0; c < map.columns(); ++c) rows_follow = rows_follow && map(r, c) == r * map.columns() + c;
        if (map.row_major()) CHECK(rows_follow);
        ++(map.row_major() ? said : silent);
    });
    CHECK(said > 0);
    CHECK(silent > 0);
    CHECK(MatrixMap(7, 5).row_major());
    CHECK(MatrixMap(7, 1).row_major());
    CHECK(!MatrixMap(64, 64, {.panel_rows = 32, .tile_columns = 32}).row_major());
}

TEST_CASE("a granule is a range of whole logical rows") {
    for_each_map([](MatrixMap const& map) {
        CHECK(map.size() % map.granule() == 0);
        bool whole = true;
        for (std::size_t r = 0; r < map.rows(); ++r)
            for (std::size_t c = 0; c < map.columns(); ++c) whole = whole && map(r, c) / map.granule() == r / map.panel_rows();
        CHECK(whole);
    });
    CHECK(MatrixMap(60, 60, {.panel_rows = 32, .tile_columns = 32}).granule() == 32 * 64);
    CHECK(MatrixMap(60, 60, {.panel_rows = 32, .tile_columns = 32}).size() == 64 * 64);
    CHECK(MatrixMap(60, 60).granule() == 60);
}

TEST_CASE("transposed tiles hold the same elements in the other order") {
    MatrixMap const plain(4, 6, {.panel_rows = 2, .tile_columns = 3}),
        turned(4, 6, {.panel_rows = 2, .tile_columns = 3, .order = TileOrder::columns});
    CHECK(plain(0, 0) == 0);
    CHECK(plain(0, 1) == 1);
    CHECK(plain(1, 0) == 3);
    CHECK(turned(0, 1) == 2);
    CHECK(turned(1, 0) == 1);
    CHECK(turned(3, 5) == plain(3, 5));
    for (std::size_t r = 0; r < 4; ++r)
        for (std::size_t c = 0; c < 6; ++c) CHECK(plain(r, c) / 6 == turned(r, c) / 6);
}

TEST_CASE("a matrix reads and writes through its layout") {
    MatrixMap const     map(5, 7, {.panel_rows = 2, .tile_columns = 4, .order = TileOrder::columns});
    std::vector<float>  buffer(map.size());
    Matrix<float> const matrix{buffer.data(), map};
    for (std::size_t r = 0; r < 5; ++r)
        for (std::size_t c = 0; c < 7; ++c) matrix(r, c) = static_cast<float>(10 * r + c);
    Matrix<float const> const read = matrix;
    CHECK(read(4, 6) == 46);
    CHECK(read(0, 3) == 3);
    CHECK(read.rows() == 5);
    CHECK(read.columns() == 7);
}

}  // namespace layout_test
