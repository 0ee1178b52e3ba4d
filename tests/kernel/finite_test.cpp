#include <doctest/doctest.h>

#include <limits>
#include <span>
#include <vector>

#include "lockstep/kernel/finite.hpp"
#include "lockstep/precision/mixed.hpp"

using namespace lockstep;

TEST_CASE_TEMPLATE("one infinity or NaN anywhere is found, and no finite value is", T, float, precision::bfloat16, precision::float16,
                   double) {
    using Wide = precision::accumulator<T>;
    for (std::size_t n : {std::size_t{1}, std::size_t{17}, std::size_t{100}, std::size_t{70000}}) {
        std::vector<T> values(n, T(Wide(60000)));
        CHECK(kernel::all_finite(std::span<T const>(values)));
        for (std::size_t at : {std::size_t{0}, n / 2, n - 1})
            for (Wide bad :
                 {std::numeric_limits<Wide>::infinity(), -std::numeric_limits<Wide>::infinity(), std::numeric_limits<Wide>::quiet_NaN()}) {
                values[at] = T(bad);
                CHECK(!kernel::all_finite(std::span<T const>(values)));
                values[at] = T(Wide(-60000));
            }
        CHECK(kernel::all_finite(std::span(values)));
    }
    CHECK(kernel::all_finite(std::span<T>{}));
}
