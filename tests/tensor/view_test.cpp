#include "lockstep/tensor/view.hpp"

#include <doctest/doctest.h>

#include <concepts>
#include <numeric>
#include <vector>

namespace view_test {

using lockstep::Assertions;
using lockstep::asserts;
using lockstep::Error;
using lockstep::tensor::View;

static_assert(std::convertible_to<View<float, 2>, View<float const, 2>>);
static_assert(!std::convertible_to<View<float const, 2>, View<float, 2>>);
static_assert(std::is_trivially_copyable_v<View<float, 3>>);

TEST_CASE("a view is row-major, and its elements are those of the memory") {
    std::vector<float> memory(24);
    std::iota(memory.begin(), memory.end(), 0.0f);
    View<float, 3> const view{memory.data(), {2, 3, 4}};
    CHECK(view.size() == 24);
    CHECK(view.strides() == std::array<std::size_t, 3>{12, 4, 1});
    CHECK(view.contiguous());
    CHECK(view(1, 2, 3) == 23);
    view(1, 0, 2) = -1;
    CHECK(memory[14] == -1);
    CHECK(view.flat().size() == 24);
    View<float const, 3> const reading = view;
    CHECK(&reading(1, 0, 2) == &memory[14]);
}

TEST_CASE("rows and columns of a matrix share its memory and know whether they are contiguous") {
    std::vector<int> memory(20);
    std::iota(memory.begin(), memory.end(), 0);
    View<int, 2> const matrix{memory.data(), {4, 5}};
    auto const         rows = matrix.rows(1, 3), columns = matrix.columns(2, 4), corner = rows.columns(4, 5);
    CHECK(rows(0, 0) == 5);
    CHECK(rows.extent(0) == 2);
    CHECK(rows.contiguous());
    CHECK(columns(3, 1) == 18);
    CHECK(columns.stride(0) == 5);
    CHECK_FALSE(columns.contiguous());
    CHECK(corner(1, 0) == 14);
    CHECK(columns.row(1).data() == memory.data() + 7);
    CHECK(columns.row(1).size() == 2);
    CHECK_THROWS_AS(columns.flat(), Error);
    CHECK(matrix.columns(2, 4).rows(0, 1).contiguous());  // one row
}

TEST_CASE("a last stride other than 1 is refused, a view of nothing is empty") {
    int value = 0;
    CHECK_THROWS_WITH_AS((View<int, 2>{&value, {1, 1}, {2, 2}}), "View: the last stride must be 1, found 2", Error);
    CHECK(View<int, 2>{}.empty());
    CHECK(View<int, 2>{}.size() == 0);
    CHECK_FALSE(View<int, 1>{&value, {1}}.empty());
    CHECK(View<int, 2>{&value, {0, 3}}.size() == 0);
}

TEST_CASE("what lies outside is refused: parts always, elements at the level of assertions that pays for it") {
    std::array<int, 6> data{};
    View<int, 2> const view(data.data(), {2, 3});
    CHECK_THROWS_WITH_AS(view.rows(1, 3), "View::rows: expected rows within 2, found 1 to 3", Error);
    CHECK_THROWS_WITH_AS(view.rows(2, 1), "View::rows: expected rows within 2, found 2 to 1", Error);
    CHECK_THROWS_WITH_AS(view.columns(0, 4), "View::columns: expected columns within 3, found 0 to 4", Error);
    if constexpr (asserts(Assertions::normal)) {
        CHECK_THROWS_WITH_AS(view(1, 3), "View: expected index 1 below 3, found 3", Error);
        CHECK_THROWS_WITH_AS(view(2, 0), "View: expected index 0 below 2, found 2", Error);
        CHECK_THROWS_WITH_AS(view.row(2), "View::row: expected a row below 2, found 2", Error);
    }
    static_assert(asserts(Assertions::normal) || noexcept(view(1, 2)));
}

TEST_CASE("a view without dimensions is one element") {
    int                value = 7;
    View<int, 0> const scalar{&value, {}};
    CHECK(scalar.size() == 1);
    CHECK(scalar.contiguous());
    CHECK(scalar() == 7);
    View<int const, 0> const reading = scalar;
    value                            = 8;
    CHECK(reading() == 8);
    CHECK(reading.flat().size() == 1);
}

TEST_CASE("a read-only view keeps the strides") {
    std::vector<float> memory(60);
    std::iota(memory.begin(), memory.end(), 0.0f);
    View<float const, 2> const columns = View<float, 2>{memory.data(), {4, 5}}.columns(1, 3);
    CHECK(columns.strides() == std::array<std::size_t, 2>{5, 1});
    CHECK(columns(3, 1) == 17);
    View<float const, 3> const gaps = View<float, 3>{memory.data(), {3, 2, 4}, {20, 8, 1}};
    CHECK(gaps(2, 1, 3) == 51);
    CHECK(gaps.size() == 24);
    CHECK_FALSE(gaps.contiguous());
    CHECK(View<float, 3>{memory.data(), {1, 1, 4}, {20, 8, 1}}.contiguous());
    View<float const, 1> const line{memory.data(), {60}};
    CHECK(line(59) == 59);
    CHECK(line.flat().data() == memory.data());
}

}  // namespace view_test
