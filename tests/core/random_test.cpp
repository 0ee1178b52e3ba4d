#include "lockstep/core/random.hpp"

#include <doctest/doctest.h>

#include <set>

namespace random_test {

using namespace lockstep;
using Words = std::array<std::uint32_t, 4>;

TEST_CASE("Philox4x32-10 gives the known answers of Random123") {
    CHECK(random_block({}, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    CHECK(random_block({.seed = ~std::uint64_t{0}, .purpose = 0xffffffff, .step = 0xffffffff}, ~std::uint64_t{0}) ==
          Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    // counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0
    CHECK(random_block({.seed = 0x299f31d0a4093822, .purpose = 0x03707344, .step = 0x13198a2e}, 0x85a308d3243f6a88) ==
          Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("random numbers are known at compile time") {
    static_assert(random_bits({}, 1) == 0xe169c58d);
    CHECK(random_bits({}, 3) == 0x9b00dbd8);
}

TEST_CASE("seed, purpose, step and element each give other numbers") {
    RandomKey const         key{.seed = 1, .purpose = 2, .step = 3};
    std::set<std::uint32_t> seen;
    for (std::uint64_t element = 0; element < 1000; ++element) seen.insert(random_bits(key, element));
    for (RandomKey other : {RandomKey{2, 2, 3}, RandomKey{1, 3, 3}, RandomKey{1, 2, 4}, RandomKey{std::uint64_t{1} << 32 | 1, 2, 3}})
        for (std::uint64_t element = 0; element < 1000; ++element) seen.insert(random_bits(other, element));
    seen.insert(random_bits(key, (std::uint64_t{1} << 34) + 1));  // the upper word of the block counts
    CHECK(seen.size() >= 5000);                                   // of 5001 draws; one coincidence is a matter of 1 in 350
}

TEST_CASE("the unit interval is open at both ends") {
    CHECK(unit_interval(0) > 0);
    CHECK(unit_interval(0xffffffff) < 1);
    CHECK(static_cast<double>(unit_interval(0x80000000)) == doctest::Approx(0.5));
}

TEST_CASE("normal numbers have the moments of the normal distribution, neighbours are uncorrelated") {
    constexpr std::size_t count = 200'000;
    RandomKey const       key{.seed = 1337, .purpose = 5};
    double                sum = 0, square = 0, cube = 0, fourth = 0, pair = 0, last = 0, tail = 0;
    for (std::size_t i = 0; i < count; ++i) {
        double const x = random_normal(key, i);
        sum += x;
        square += x * x;
        cube += x * x * x;
        fourth += x * x * x * x;
        pair += x * last;
        tail += std::abs(x) > 1.959964;
        last = x;
    }
    double const n = static_cast<double>(count);
    CHECK(std::abs(sum / n) < 5 / std::sqrt(n));
    CHECK(std::abs(square / n - 1) < 5 * std::sqrt(2 / n));
    CHECK(std::abs(cube / n) < 5 * std::sqrt(15 / n));
    CHECK(std::abs(fourth / n - 3) < 5 * std::sqrt(96 / n));
    CHECK(std::abs(pair / n) < 5 / std::sqrt(n));
    CHECK(std::abs(tail / n - 0.05) < 5 * std::sqrt(0.05 * 0.95 / n));
}

}  // namespace random_test
