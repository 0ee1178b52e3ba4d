#include "lockstep/core/exact_sum.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "lockstep/core/random.hpp"

namespace exact_sum_test {

using lockstep::ExactSum;

__extension__ using Wide = __int128;

/// Doubles of both signs over many orders of magnitude.
std::vector<double> wild(std::size_t count, int exponents) {
    std::vector<double> terms(count);
    for (std::size_t i = 0; i < count; ++i) {
        auto const words    = lockstep::random_block({.seed = 11}, i);
        double     mantissa = lockstep::unit_interval(words[0]) + 0x1p-32 * lockstep::unit_interval(words[1]) - 0.5;
        terms[i]            = std::ldexp(mantissa, static_cast<int>(words[2] % static_cast<unsigned>(exponents)) - exponents / 2);
    }
    return terms;
}

ExactSum sum_of(std::vector<double> const& terms) {
    ExactSum sum;
    for (double term : terms) sum += term;
    return sum;
}

bool same_limbs(ExactSum a, ExactSum b) { return std::ranges::equal(a.limbs(), b.limbs()); }

TEST_CASE("a sum is exact where a double of it is") {
    CHECK(ExactSum{}.value() == 0);
    CHECK(sum_of({0.1}).value() == 0.1);
    CHECK(sum_of({-0.1}).value() == -0.1);
    CHECK(sum_of({1, 2, 3, -10}).value() == -4);
    CHECK(sum_of({std::numeric_limits<double>::denorm_min()}).value() == std::numeric_limits<double>::denorm_min());
    CHECK(sum_of({-std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::min()}).value() ==
          std::numeric_limits<double>::min() - std::numeric_limits<double>::denorm_min());
    CHECK(sum_of({std::numeric_limits<double>::max()}).value() == std::numeric_limits<double>::max());
    CHECK(sum_of({-0.0, 0.0}).value() == 0);
}

TEST_CASE("nothing is lost to cancellation") {
    CHECK(sum_of({1e16, 1, -1e16}).value() == 1);
    CHECK(sum_of({1e300, 1e-300, -1e300}).value() == 1e-300);
    CHECK(sum_of({1e300, -1e-300, -1e300}).value() == -1e-300);
    double const most = std::numeric_limits<double>::max();
    CHECK(sum_of({most, most, -most, -most, 3}).value() == 3);  // beyond a double in between
    std::vector<double> terms = wild(1000, 400);
    std::size_t const   count = terms.size();
    for (std::size_t i = 0; i < count; ++i) terms.push_back(-terms[i]);
    CHECK(sum_of(terms).value() == 0);
    terms.push_back(0x1p-200);
    CHECK(sum_of(terms).value() == 0x1p-200);
}

TEST_CASE("a million terms of 0.1 are a million times the double 0.1") {
    ExactSum sum;
    for (int i = 0; i < 1'000'000; ++i) sum += 0.1;
    CHECK(sum.value() == doctest::Approx(100'000).epsilon(1e-15));
    for (int i = 0; i < 1'000'000; ++i) sum += -0.1;
    CHECK(sum.value() == 0);
}

TEST_CASE("the value lies within one unit in the last place of the exact sum") {
    for (std::size_t trial = 0; trial < 200; ++trial) {
        ExactSum sum;
        Wide     exact = 0;
        for (std::size_t i = 0; i < 50; ++i) {
            auto const   words   = lockstep::random_block({.seed = trial}, i);
            std::int64_t integer = static_cast<std::int64_t>((std::uint64_t{words[0]} << 32 | words[1]) >> 11) - (std::int64_t{1} << 52);
            int const    shift   = static_cast<int>(words[2] % 50);
            sum += std::ldexp(static_cast<double>(integer), shift);
            exact += static_cast<Wide>(integer) * (Wide{1} << shift);
        }
        double const value = sum.value();
        double const error = static_cast<double>(static_cast<Wide>(value) - exact);
        CHECK(std::abs(error) <= std::abs(std::nextafter(value, 2 * value) - value));
    }
}

TEST_CASE("a sum does not depend on the order of its terms, nor on how they are split and merged") {
    std::vector<double> terms = wild(3000, 600);
    ExactSum const      whole = sum_of(terms);
    for (std::uint64_t shuffle = 0; shuffle < 5; ++shuffle) {
        for (std::size_t i = terms.size() - 1; i > 0; --i)
            std::swap(terms[i], terms[lockstep::random_bits({.seed = shuffle}, i) % (i + 1)]);
        CHECK(same_limbs(sum_of(terms), whole));

        std::array<ExactSum, 7> parts;
        for (std::size_t i = 0; i < terms.size(); ++i) parts[i % (shuffle + 3)] += terms[i];
        ExactSum forward, backward;
        for (std::size_t p = 0; p < parts.size(); ++p) {
            forward += parts[p];
            backward += parts[parts.size() - 1 - p];
        }
        CHECK(same_limbs(forward, whole));
        CHECK(same_limbs(backward, whole));
        CHECK(forward.value() == whole.value());
    }
}

TEST_CASE("limbs added word by word, as a reduction over ranks adds them, are the merged sum") {
    std::vector<double> const                 terms = wild(1000, 300);
    std::array<std::int64_t, ExactSum::words> added{};
    for (std::size_t rank = 0; rank < 4; ++rank) {
        ExactSum part;
        for (std::size_t i = rank; i < terms.size(); i += 4) part += terms[i];
        auto const limbs = part.limbs();
        for (std::size_t w = 0; w < added.size(); ++w) added[w] += limbs[w];
    }
    CHECK(ExactSum(added).value() == sum_of(terms).value());
    CHECK(same_limbs(ExactSum(added), sum_of(terms)));
}

TEST_CASE("one term that is not finite makes the sum NaN, and merging keeps it") {
    double const inf = std::numeric_limits<double>::infinity();
    for (double const bad : {inf, -inf, std::numeric_limits<double>::quiet_NaN()}) {
        ExactSum sum = sum_of({1, bad, 2});
        CHECK(!sum.finite());
        CHECK(std::isnan(sum.value()));
        ExactSum merged = sum_of({1});
        CHECK(merged.finite());
        merged += sum;
        CHECK(std::isnan(merged.value()));
        CHECK(std::isnan(ExactSum(sum.limbs()).value()));
    }
    CHECK(std::isnan(sum_of({inf, -inf}).value()));
}

TEST_CASE("TRAPS 8: squares of shards of two ranks and of one replicated element give the norm 13") {
    ExactSum rank0 = sum_of({3.0 * 3.0, 0, 12.0 * 12.0}), rank1 = sum_of({0, 4.0 * 4.0});
    rank1 += rank0;
    CHECK(std::sqrt(rank1.value()) == 13);
}

}  // namespace exact_sum_test
