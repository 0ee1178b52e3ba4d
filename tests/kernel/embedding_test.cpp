#include <doctest/doctest.h>

#include <cmath>

#include "lockstep/kernel/embedding.hpp"
#include "tables.hpp"

namespace embedding_test {

using namespace lockstep;
using state::Layout;
using test::bfloat16;
using test::float16;
using test::Table;
using test::wide;

constexpr Layout layouts[]{{},
                           {.panel_rows = 8, .tile_columns = 16},
                           {.panel_rows = 8, .tile_columns = 16, .order = state::TileOrder::columns},
                           {.panel_rows = 3, .tile_columns = 5, .order = state::TileOrder::columns},
                           {.panel_rows = 32, .tile_columns = 32, .order = state::TileOrder::column_pairs},
                           {.panel_rows = 32, .tile_columns = 32, .order = state::TileOrder::row_pairs}};

/// A matrix of the flat buffer with its memory; the padding stays zero.
template <class T>
struct Stored {
    state::MatrixMap map;
    std::vector<T>   elements;

    Stored(std::size_t rows, std::size_t columns, Layout layout) : map(rows, columns, layout), elements(map.size()) {}
    Stored(Table<T> const& table, Layout layout) : Stored(table.rows, table.columns, layout) {
        for (std::size_t r = 0; r < table.rows; ++r)
            for (std::size_t c = 0; c < table.columns; ++c) elements[map(r, c)] = table(r, c);
    }
    state::Matrix<T> matrix() { return {elements.data(), map}; }
    Table<T>         table() const {
                Table<T> result(map.rows(), map.columns());
                for (std::size_t r = 0; r < map.rows(); ++r)
            for (std::size_t c = 0; c < map.columns(); ++c) result(r, c) = elements[map(r, c)];
        return result;
    }
    double sum() const {
        double total = 0;
        for (T element : elements) total += wide(element);
        return total;
    }
};

std::vector<std::int32_t> some_tokens(std::size_t count, std::int32_t vocab) {
    std::vector<std::int32_t> tokens(count);
    for (std::size_t n = 0; n < count; ++n)
        tokens[n] = static_cast<std::int32_t>(random_bits({.seed = 5}, n) % static_cast<std::uint32_t>(vocab));
    return tokens;
}

TEST_CASE_TEMPLATE("a row is the token's row plus its position's, rounded once, in every layout", T, float, bfloat16, float16, double) {
    using A = precision::accumulator<T>;
    for (std::size_t columns : test::awkward_sizes)
        for (Layout layout : layouts) {
            auto const table = test::random_table<T>(11, columns, 1), positions = test::random_table<T>(4, columns, 2);
            Stored<T>  stored(table, layout), stored_positions(positions, {});
            auto const tokens = some_tokens(9, 11);
            test::with_each_isa([&](kernel::Isa) {
                Table<T> y(9, columns), plain(9, columns);
                kernel::embedding_forward(tokens, stored.matrix(), stored_positions.matrix(), 3, y.view());
                kernel::embedding_forward(tokens, stored.matrix(), state::Matrix<T>{}, 0, plain.view());
                bool same = true;
                for (std::size_t n = 0; n < 9; ++n)
                    for (std::size_t c = 0; c < columns; ++c) {
                        T const row = table(static_cast<std::size_t>(tokens[n]), c);
                        same        = same && wide(plain(n, c)) == wide(row);
                        same        = same && wide(y(n, c)) == wide(T(static_cast<A>(row) + static_cast<A>(positions(n % 3, c))));
                    }
                CHECK(same);
                CHECK(y.padding_is_untouched());
            });
        }
}

TEST_CASE("gradients of the tables are the sums over their tokens, in every layout") {
    auto const tokens = some_tokens(21, 6);
    for (std::size_t columns : test::awkward_sizes)
        for (Layout layout : layouts) {
            auto const    dy = test::random_table<double>(21, columns, 3);
            Table<double> right(6, columns), right_positions(5, columns);
            for (std::size_t n = 0; n < 21; ++n)
                for (std::size_t c = 0; c < columns; ++c) {
                    right(static_cast<std::size_t>(tokens[n]), c) += dy(n, c);
                    right_positions(n % 5, c) += dy(n, c);
                }
            Stored<double> dtable(6, columns, layout), dpositions(5, columns, layout);
            kernel::embedding_backward(tokens, dy.view(), dtable.matrix(), dpositions.matrix(), 5);
            CHECK(test::same_bits(dtable.table(), right));
            CHECK(test::same_bits(dpositions.table(), right_positions));
            CHECK(dtable.sum() == doctest::Approx(dpositions.sum()));  // nothing went to the padding
            kernel::embedding_backward(tokens, dy.view(), dtable.matrix(), state::Matrix<double>{}, 0);
            CHECK(dtable.table()(0, 0) == doctest::Approx(2 * right(0, 0)));
        }
}

TEST_CASE_TEMPLATE("gradients are added in the order of the tokens: both families agree to the bit", T, float, bfloat16, float16) {
    auto const tokens = some_tokens(50, 4);
    for (std::size_t columns : test::awkward_sizes) {
        auto const   dy = test::random_table<T>(50, columns, 3, 100.0);
        Table<float> right(4, columns);
        for (std::size_t n = 0; n < 50; ++n)
            for (std::size_t c = 0; c < columns; ++c) right(static_cast<std::size_t>(tokens[n]), c) += static_cast<float>(dy(n, c));
        test::with_each_isa([&](kernel::Isa) {
            Stored<float> dtable(4, columns, layouts[2]);
            kernel::embedding_backward(tokens, dy.view(), dtable.matrix(), state::Matrix<float>{}, 0);
            CHECK(test::same_bits(dtable.table(), right));
        });
    }
}

TEST_CASE("embeddings are the same on any number of threads") {
    auto const tokens = some_tokens(700, 5);
    auto const dy     = test::random_table<bfloat16>(700, 300, 1);
    CHECK(test::same_on_any_number_of_threads([&] {
        Stored<float> dtable(5, 300, {}), dpositions(100, 300, {});
        kernel::embedding_backward(tokens, dy.view(), dtable.matrix(), dpositions.matrix(), 100);
        return dtable.table();
    }));
    Stored<bfloat16> table(test::random_table<bfloat16>(5, 300, 2), {});
    CHECK(test::same_on_any_number_of_threads([&] {
        Table<bfloat16> y(700, 300);
        kernel::embedding_forward(tokens, table.matrix(), state::Matrix<bfloat16>{}, 0, y.view());
        return y;
    }));
}

TEST_CASE("NaN in a row of the table reaches the rows of its token only") {
    test::with_each_isa([](kernel::Isa) {
        Stored<float> table(3, 17, {});
        table.elements[table.map(1, 16)] = std::nanf("");
        Table<float> y(2, 17);
        kernel::embedding_forward(std::vector<std::int32_t>{1, 2}, table.matrix(), state::Matrix<float>{}, 0, y.view());
        CHECK(std::isnan(y(0, 16)));
        CHECK(y(1, 16) == 0.0f);
    });
}

TEST_CASE("tokens outside the vocabulary and wrong shapes are errors that say so") {
    Stored<float>             table(3, 4, {}), positions(2, 4, {});
    Table<float>              y(2, 4), wide_y(2, 5);
    std::vector<std::int32_t> tokens{0, 3}, good{0, 2}, negative{-1, 0};
    CHECK_THROWS_WITH_AS(kernel::embedding_forward(tokens, table.matrix(), positions.matrix(), 2, y.view()),
                         "embedding_forward: token 3 at position 1 is outside the vocabulary of 3", Error);
    CHECK_THROWS_WITH_AS(kernel::embedding_backward(negative, y.view(), table.matrix(), positions.matrix(), 2),
                         "embedding_backward: token -1 at position 0 is outside the vocabulary of 3", Error);
    CHECK_THROWS_WITH_AS(kernel::embedding_forward(good, table.matrix(), positions.matrix(), 2, wide_y.view()),
                         "embedding_forward: columns of the table must be 5, found 4", Error);
    CHECK_THROWS_WITH_AS(kernel::embedding_forward(good, table.matrix(), positions.matrix(), 0, y.view()),
                         "embedding_forward: a sequence must have 1 to 2 positions, found 0", Error);
    Table<float> none(0, 4);
    kernel::embedding_forward(std::vector<std::int32_t>{}, table.matrix(), positions.matrix(), 2, none.view());
}

}  // namespace embedding_test
