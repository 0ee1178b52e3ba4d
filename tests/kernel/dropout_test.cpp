#include <doctest/doctest.h>

#include <cmath>

#include "lockstep/kernel/dropout.hpp"
#include "tables.hpp"

namespace dropout_test {

using namespace lockstep;
using test::bfloat16;
using test::float16;
using test::Table;
using test::wide;

constexpr RandomKey key{.seed = 42, .purpose = 3, .step = 9};

TEST_CASE_TEMPLATE("an element is kept where its random number is not below the probability, and scaled once", T, float, bfloat16, float16,
                   double) {
    using A = precision::accumulator<T>;
    for (std::size_t columns : test::awkward_sizes)
        for (std::uint64_t first : {std::uint64_t{0}, std::uint64_t{7}, (std::uint64_t{1} << 34) - 11}) {
            auto const x = test::random_table<T>(3, columns, 1);
            test::with_each_isa([&](kernel::Isa) {
                Table<T> y = x;
                kernel::dropout(y.view(), 0.3f, key, first);
                bool same = true;
                for (std::size_t r = 0; r < 3; ++r)
                    for (std::size_t c = 0; c < columns; ++c) {
                        bool const kept  = unit_interval(random_bits(key, first + r * columns + c)) >= double{0.3f};
                        A const    right = kept ? static_cast<A>(x(r, c)) * (A(1) / (A(1) - A(0.3f))) : A(0);
                        same             = same && wide(y(r, c)) == wide(T(right));
                    }
                CHECK(same);
                CHECK(y.padding_is_untouched());
            });
        }
}

TEST_CASE("TRAPS 30: the mask is a function of key and element: parts give what the whole gives") {
    auto const x = test::random_table<bfloat16>(40, 5001, 1);
    CHECK(test::same_on_any_number_of_threads([&] {
        Table<bfloat16> y = x;
        kernel::dropout(y.view(), 0.5f, key, 3);
        return y;
    }));
    Table<bfloat16> whole = x, parts = x;
    kernel::dropout(whole.view(), 0.5f, key, 3);
    kernel::dropout(parts.view().rows(0, 13), 0.5f, key, 3);
    kernel::dropout(parts.view().rows(13, 40), 0.5f, key, 3 + 13 * 5001);
    CHECK(test::same_bits(whole, parts));
}

TEST_CASE("about the right share is kept, and other keys give other masks") {
    Table<float> ones(100, 1000, 0), others(100, 1000, 0);
    for (Table<float>* table : {&ones, &others}) std::ranges::fill(table->elements, 1.0f);
    kernel::dropout(ones.view(), 0.25f, key, 0);
    RandomKey next = key;
    ++next.step;
    kernel::dropout(others.view(), 0.25f, next, 0);
    double sum = 0;
    for (float value : ones.elements) sum += double{value};
    CHECK(sum / 100000 == doctest::Approx(1.0).epsilon(0.01));
    CHECK(!test::same_bits(ones, others));
}

TEST_CASE("probability 0 changes nothing, 1 is refused; what is kept may be NaN, what is dropped is 0") {
    Table<float> x(1, 40);
    std::ranges::fill(x.elements, std::nanf(""));
    CHECK_THROWS_WITH_AS(kernel::dropout(x.view(), 1.0f, key, 0), "dropout: the probability must be in [0, 1), found 1", Error);
    kernel::dropout(x.view(), 0.0f, key, 0);
    CHECK(std::isnan(x(0, 0)));
    test::with_each_isa([&](kernel::Isa) {
        Table<float> y = x;
        kernel::dropout(y.view(), 0.5f, key, 0);
        bool right = true;
        for (std::size_t c = 0; c < 40; ++c) right = right && (random_bits(key, c) >= 0x80000000u ? std::isnan(y(0, c)) : y(0, c) == 0.0f);
        CHECK(right);
    });
    Table<float> none(0, 0);
    kernel::dropout(none.view(), 0.5f, key, 0);
}

}  // namespace dropout_test
