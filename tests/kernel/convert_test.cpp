#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <span>

#include "lockstep/kernel/convert.hpp"
#include "tables.hpp"

namespace convert_test {

using namespace lockstep;
using test::bfloat16;
using test::float16;

TEST_CASE("TRAPS 14: bfloat16 of ties, overflow and NaN") {
    test::with_each_isa([](kernel::Isa) {
        std::vector<float>    from(40, 1.0f);
        std::vector<bfloat16> to(from.size());
        from[0]  = 1.00390625f;
        from[17] = 1.01171875f;
        from[33] = 3.3961776e38f;
        from[39] = std::bit_cast<float>(0x7FFFFFFFu);
        kernel::convert_block(std::span<float const>(from), std::span(to));
        CHECK(static_cast<float>(to[0]) == 1.0f);
        CHECK(static_cast<float>(to[17]) == 1.015625f);
        CHECK(std::isinf(static_cast<float>(to[33])));
        CHECK(std::isnan(static_cast<float>(to[39])));
        CHECK(static_cast<float>(to[38]) == 1.0f);
    });
}

TEST_CASE("a double is rounded to a 16-bit type once") {
    double const          above_tie = 1.0 + 0x1p-8 + 0x1p-40;  // as a float it is the tie itself
    double const          below_tie = 1.0 + 3 * 0x1p-8 - 0x1p-40;
    std::vector<double>   from{above_tie, below_tie, -above_tie, 1.0 + 0x1p-11 + 0x1p-40, std::nan(""), 1e300};
    std::vector<bfloat16> b(from.size());
    std::vector<float16>  h(from.size());
    kernel::convert_block(std::span(from), std::span(b));
    kernel::convert_block(std::span(from), std::span(h));
    CHECK(static_cast<float>(b[0]) == 1.0078125f);
    CHECK(static_cast<float>(b[1]) == 1.0078125f);
    CHECK(static_cast<float>(b[2]) == -1.0078125f);
    CHECK(static_cast<float>(h[3]) == 1.0009765625f);
    CHECK(std::isnan(static_cast<float>(b[4])));
    CHECK(std::isinf(static_cast<float>(h[5])));
}

TEST_CASE_TEMPLATE("conversions give the same bits in every family, at every length", T, bfloat16, float16) {
    for (std::size_t n : test::awkward_sizes) {
        auto const         from = test::random_table<float>(1, n, n, 100.0);
        test::Table<float> back(1, n);
        test::with_each_isa([&](kernel::Isa) {
            test::Table<T> to(1, n);
            kernel::convert_block(from.view().row(0), to.view().row(0));
            kernel::convert_block(to.view().row(0), back.view().row(0));
            bool same = true;
            for (std::size_t i = 0; i < n; ++i) {
                same = same && to(0, i).bits == T(from(0, i)).bits;
                same = same && back(0, i) == static_cast<float>(to(0, i));
            }
            CHECK(same);
            CHECK(to.padding_is_untouched());
        });
    }
}

TEST_CASE("lengths are checked; nothing is converted to nothing") {
    std::vector<float>    five(5);
    std::vector<bfloat16> three(3);
    CHECK_THROWS_WITH_AS(kernel::convert_block(std::span(five), std::span(three)), "convert: elements to write must be 5, found 3", Error);
    kernel::convert_block(std::span<float const>{}, std::span<bfloat16>{});
}

}  // namespace convert_test
