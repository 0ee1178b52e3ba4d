#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "lockstep/kernel/norm.hpp"
#include "tables.hpp"

namespace norm_test {

using namespace lockstep;

bool same(ExactSum a, ExactSum b) { return std::ranges::equal(a.limbs(), b.limbs()); }

template <class T>
std::vector<T> some_values(std::size_t count) {
    auto const table = test::random_table<T>(1, count, count, 10.0);
    auto const row   = table.view().row(0);
    return {row.begin(), row.end()};
}

TEST_CASE_TEMPLATE("the sum of squares is that of long double, for every granule", T, float, test::bfloat16, test::float16, double) {
    for (std::size_t n : test::awkward_sizes) {
        auto const  values = some_values<T>(n);
        long double right  = 0;
        for (T value : values) right += static_cast<long double>(test::wide(value)) * static_cast<long double>(test::wide(value));
        for (std::size_t granule : {std::size_t{1}, std::size_t{7}, std::size_t{16}, std::size_t{100}, n})
            CHECK(kernel::sum_of_squares(std::span(values), granule).value() == doctest::Approx(static_cast<double>(right)).epsilon(1e-15));
    }
}

TEST_CASE_TEMPLATE("splitting between granules changes no bit, nor do threads", T, float, test::bfloat16, test::float16, double) {
    auto const         values = some_values<T>(200000);
    std::span<T const> all(values);
    for (std::size_t granule : {std::size_t{1}, std::size_t{50}, std::size_t{768}}) {
        ExactSum const whole = kernel::sum_of_squares(all, granule);
        for (std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{260}}) {
            ExactSum parts = kernel::sum_of_squares(all.first(cut * granule), granule);
            parts += kernel::sum_of_squares(all.subspan(cut * granule), granule);
            CHECK(same(parts, whole));
        }
        for (int threads : {1, 2, 3})
            CHECK(same(runtime::Threads(threads).run([&] { return kernel::sum_of_squares(all, granule); }), whole));
    }
}

TEST_CASE_TEMPLATE("many spans at once add up to the bits of one after another", T, float, test::bfloat16, test::float16, double) {
    auto const                       values = some_values<T>(200000);
    std::vector<kernel::Granules<T>> parts;
    ExactSum                         right;
    std::size_t                      begin = 0;
    for (std::size_t n : {std::size_t{1}, std::size_t{0}, std::size_t{50}, std::size_t{3000}, std::size_t{70000}, std::size_t{768}})
        for (std::size_t granule : {std::size_t{1}, std::size_t{50}}) {
            parts.push_back({std::span(values).subspan(begin, n), granule});
            right += kernel::sum_of_squares(parts.back().values, granule);
            begin += n;
        }
    for (int threads : {1, 2, 3})
        CHECK(same(runtime::Threads(threads).run([&] { return kernel::sum_of_squares(std::span<kernel::Granules<T> const>(parts)); }),
                   right));
    CHECK(kernel::sum_of_squares(std::span<kernel::Granules<T> const>{}).value() == 0.0);
}

TEST_CASE_TEMPLATE("with a granule of 1 the sum is exact over the whole range of exponents", T, float, test::bfloat16, test::float16) {
    std::vector<T> values(5000);
    ExactSum       right;
    for (std::size_t i = 0; i < values.size(); ++i) {
        auto const  bits  = random_bits({.seed = 3}, i);
        float const value = std::ldexp(1.0f + static_cast<float>(bits >> 9) * 0x1p-23f, static_cast<int>(bits % 253) - 149);
        values[i]         = T(sizeof(T) == 2 && std::is_same_v<T, test::float16> ? std::min(value, 60000.0f) : value);
        double const kept = test::wide(values[i]);
        if (std::isfinite(kept))
            right += kept * kept;
        else
            values[i] = T(0.0f);
    }
    CHECK(same(kernel::sum_of_squares(std::span(values), 1), right));
    CHECK(right.value() > 0);
}

TEST_CASE("NaN and infinity make the sum NaN, whatever the granule; the empty sum is 0") {
    for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity()})
        for (std::size_t granule : {std::size_t{1}, std::size_t{10}})
            for (std::size_t n : {std::size_t{20}, std::size_t{3000}}) {
                std::vector<float> values(n, 1.0f);
                CHECK(kernel::sum_of_squares(std::span(values), granule).value() == static_cast<double>(n));
                values[n - 1] = bad;
                CHECK(std::isnan(kernel::sum_of_squares(std::span(values), granule).value()));
            }
    CHECK(kernel::sum_of_squares(std::span<float const>{}, 4).value() == 0.0);
    CHECK_THROWS_AS(kernel::sum_of_squares(std::span<float const>{}, 0), Error);
}

}  // namespace norm_test
