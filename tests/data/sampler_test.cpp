#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "../folder.hpp"
#include "lockstep/data/sampler.hpp"

namespace sampler_test {

using namespace lockstep::data;
using namespace lockstep::test;

std::vector<std::uint64_t> epoch_of(Sampler const& sampler, std::uint64_t epoch) {
    std::vector<std::uint64_t> order;
    for (std::uint64_t i = 0; i < sampler.windows; ++i) order.push_back(sampler.window(epoch * sampler.windows + i));
    return order;
}

TEST_CASE("an epoch visits every window exactly once") {
    for (std::uint64_t const w : {1u, 2u, 3u, 4u, 5u, 7u, 16u, 17u, 64u, 1000u, 4097u})
        for (Order const order : {Order::shuffled, Order::sequential})
            for (std::uint64_t const epoch : {0u, 1u, 9u}) {
                std::vector<int> seen(w, 0);
                for (std::uint64_t const window : epoch_of({w, order, 1337}, epoch)) {
                    REQUIRE(window < w);
                    ++seen[window];
                }
                CHECK(seen == std::vector<int>(w, 1));
            }
}

TEST_CASE("the order depends on seed and epoch, and on nothing else") {
    Sampler const sampler{1000, Order::shuffled, 1};
    auto const    order = epoch_of(sampler, 0);
    CHECK(order == epoch_of(Sampler{1000, Order::shuffled, 1}, 0));
    CHECK(order != epoch_of(sampler, 1));
    CHECK(order != epoch_of(Sampler{1000, Order::shuffled, 2}, 0));
    CHECK(order != epoch_of(Sampler{1000, Order::shuffled, 1 + (std::uint64_t{1} << 32)}, 0));
}

TEST_CASE("the sequential order is the position, epoch after epoch") {
    Sampler const sampler{5, Order::sequential, 1};
    for (std::uint64_t i = 0; i < 17; ++i) CHECK(sampler.window(i) == i % 5);
}

TEST_CASE("a shuffled window is as likely at any position") {
    // chi-squared of the first position over 6400 epochs, 63 degrees of freedom: above 120 about once in 10^5
    std::vector<double> count(64, 0);
    for (std::uint64_t epoch = 0; epoch < 6400; ++epoch) ++count[Sampler{64, Order::shuffled, 7}.window(epoch * 64)];
    double chi_squared = 0;
    for (double const c : count) chi_squared += (c - 100) * (c - 100) / 100;
    CHECK(chi_squared < 120);
    CHECK(chi_squared > 25);
}

TEST_CASE("both orders of two windows occur") {
    std::vector<int> first(2, 0);
    for (std::uint64_t epoch = 0; epoch < 1000; ++epoch) ++first[Sampler{2, Order::shuffled, 7}.window(epoch * 2)];
    CHECK(first[0] > 400);
    CHECK(first[1] > 400);
}

TEST_CASE("huge counts of windows work without a table") {
    std::uint64_t const w = (std::uint64_t{1} << 40) + 3;
    for (std::uint64_t i = 0; i < 100; ++i) CHECK(Sampler{w, Order::shuffled, 3}.window(i) < w);
    std::uint64_t const most = ~std::uint64_t{0};
    CHECK(Sampler{most, Order::shuffled, 3}.window(1) != Sampler{most, Order::shuffled, 3}.window(2));
}

TEST_CASE("windows overlap by one token, and too few tokens are an error, not an underflow") {
    CHECK(windows(1025, 64, "x") == 16);
    CHECK(windows(1024, 64, "x") == 15);
    CHECK(windows(65, 64, "x") == 1);
    CHECK(windows(2, 1, "x") == 1);
    for (std::size_t const n : {0u, 1u, 2u, 64u})
        CHECK(mentions(refusal([&] { windows(n, 64, "x.txt"); }),
                       "data x.txt: expected at least 64 + 1 tokens for one sequence and its labels, found " + std::to_string(n)));
    CHECK(!refusal([] { windows(100, ~std::size_t{0}, "x"); }).empty());
    CHECK(!refusal([] { windows(100, 0, "x"); }).empty());
}

}  // namespace sampler_test
