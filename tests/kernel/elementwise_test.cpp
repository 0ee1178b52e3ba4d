#include <doctest/doctest.h>

#include <cmath>

#include "lockstep/kernel/elementwise.hpp"
#include "tables.hpp"

namespace elementwise_test {

using namespace lockstep;
using test::bfloat16;
using test::float16;
using test::Table;
using test::wide;

TEST_CASE_TEMPLATE("sums are rounded once, at every width", T, float, bfloat16, float16, double) {
    using A = precision::accumulator<T>;
    for (std::size_t columns : test::awkward_sizes) {
        auto const x = test::random_table<T>(3, columns, 1), y = test::random_table<T>(3, columns, 2);
        test::with_each_isa([&](kernel::Isa) {
            Table<T> sum = y, copied(3, columns);
            kernel::add(x.view(), sum.view());
            kernel::copy(x.view(), copied.view());
            bool same = true;
            for (std::size_t r = 0; r < 3; ++r)
                for (std::size_t c = 0; c < columns; ++c)
                    same = same && wide(sum(r, c)) == wide(T(static_cast<A>(x(r, c)) + static_cast<A>(y(r, c))));
            CHECK(same);
            CHECK(test::same_bits(copied, x));
            CHECK((sum.padding_is_untouched() && copied.padding_is_untouched()));
        });
    }
}

TEST_CASE("gradients in a 16-bit type are added to sums in float") {
    auto const x = test::random_table<bfloat16>(2, 33, 1);
    test::with_each_isa([&](kernel::Isa) {
        Table<float> y(2, 33);
        for (int i = 0; i < 1000; ++i) kernel::add(x.view(), y.view());
        CHECK(wide(y(1, 32)) == doctest::Approx(1000 * wide(x(1, 32))).epsilon(1e-5));
    });
}

TEST_CASE("fills and NaN") {
    Table<float> x(2, 20), y(2, 20);
    kernel::fill(x.view().row(1), 3.0f);
    CHECK(x(0, 19) == 0.0f);
    CHECK(x(1, 0) == 3.0f);
    CHECK(x(1, 19) == 3.0f);
    x(1, 19) = std::nanf("");
    test::with_each_isa([&](kernel::Isa) { kernel::add(x.view(), y.view()); });
    CHECK(std::isnan(y(1, 19)));
    CHECK(y(1, 18) == 6.0f);
    kernel::fill(x.view().row(1), 0.0f);
    CHECK(x(1, 0) == 0.0f);
    CHECK(x(1, 19) == 0.0f);
    CHECK(x.padding_is_untouched());
}

TEST_CASE("sums are the same on any number of threads, shapes are checked, empty tensors are legal") {
    auto const x = test::random_table<bfloat16>(20, 10000, 1);
    CHECK(test::same_on_any_number_of_threads([&] {
        auto y = test::random_table<bfloat16>(20, 10000, 2);
        kernel::add(x.view(), y.view());
        return y;
    }));
    Table<float> two(2, 3), three(3, 3), none(0, 3);
    CHECK_THROWS_WITH_AS(kernel::add(two.view(), three.view()), "add: y must be 2 x 3, found 3 x 3", Error);
    CHECK_THROWS_WITH_AS(kernel::copy(three.view(), two.view()), "copy: y must be 3 x 3, found 2 x 3", Error);
    kernel::add(none.view(), none.view());
    kernel::fill(std::span<float>{}, 0.0f);
}

}  // namespace elementwise_test
