// The tree over micro-steps against its definition, and its partial sums against what they may take.

#include "lockstep/train/gradient_tree.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "lockstep/core/random.hpp"
#include "lockstep/tensor/arena_storage.hpp"

namespace gradient_tree_test {

using namespace lockstep;

/// The tree over leaves begin .. begin + count - 1, written with brackets.
std::string tree(std::size_t begin, std::size_t count) {
    if (count == 1) return std::to_string(begin);
    if (count % 2 == 0) return "(" + tree(begin, count / 2) + "+" + tree(begin + count / 2, count / 2) + ")";
    std::vector<std::string> x;
    for (std::size_t i = 0; i < count; ++i) x.push_back(std::to_string(begin + i));
    for (std::size_t s = 1; s < count; s *= 2)
        for (std::size_t i = 0; i + s < count; i += 2 * s) x[i] = "(" + x[i] + "+" + x[i + s] + ")";
    return x[0];
}

TEST_CASE("merges follow the tree, with at most log2 partial sums waiting") {
    for (std::size_t count = 1; count <= 70; ++count) {
        std::vector<std::string> waiting;
        std::size_t              most = 0;
        for (std::size_t m = 0; m < count; ++m) {
            std::string       sum    = std::to_string(m);
            std::size_t const merges = merges_after(m, count);
            REQUIRE(merges <= waiting.size());
            for (std::size_t k = 0; k < merges; ++k) {
                sum = "(" + waiting.back() + "+" + sum + ")";
                waiting.pop_back();
            }
            if (m + 1 < count) waiting.push_back(sum), most = std::max(most, waiting.size());
            if (m + 1 == count) CHECK(waiting.empty());
            if (m + 1 == count) CHECK(sum == tree(0, count));
        }
        CHECK(most <= partial_sums(count));
        CHECK((std::size_t{1} << partial_sums(count)) <= count);
        CHECK((std::size_t{2} << partial_sums(count)) > count);
    }
}

TEST_CASE("the micro-steps of each of 2, 4 or 8 ranks are a subtree") {
    for (std::size_t each : {1u, 2u, 3u, 5u, 6u, 12u}) {
        CHECK(tree(0, 2 * each) == "(" + tree(0, each) + "+" + tree(each, each) + ")");
        CHECK(tree(0, 4 * each) == "(" + tree(0, 2 * each) + "+" + tree(2 * each, 2 * each) + ")");
        CHECK(tree(0, 8 * each) == "(" + tree(0, 4 * each) + "+" + tree(4 * each, 4 * each) + ")");
    }
}

/// A strategy that only holds gradients: with or without a bucket a parameter.
struct Gradients {
    std::vector<std::vector<float>>        units;
    std::vector<state::GradientBucket>     all;
    std::span<state::GradientBucket const> buckets() const { return all; }
    std::span<float>                       gradients(std::size_t unit) { return units[unit]; }
};

TEST_CASE("gradients of micro-steps become their tree's sum, and the buffers of those before the last are clear") {
    std::vector<state::Unit> units(2);
    for (std::size_t u = 0; u < 2; ++u) {
        units[u].size = u == 0 ? 40000 : 70;
        units[u].parameters.resize(1);
        units[u].parameters[0].map = {units[u].size, 1};
    }
    auto const contribution = [](std::size_t m, std::size_t u, std::size_t i) {
        return static_cast<float>(random_normal({m, static_cast<std::uint32_t>(u), 0}, i) * (m % 3 == 0 ? 1e6 : 1));
    };
    std::function<float(std::size_t, std::size_t, std::size_t, std::size_t)> const sum = [&](std::size_t begin, std::size_t count,
                                                                                             std::size_t u, std::size_t i) -> float {
        if (count == 1) return contribution(begin, u, i);
        if (count % 2 == 0) return sum(begin, count / 2, u, i) + sum(begin + count / 2, count / 2, u, i);
        std::vector<float> x;
        for (std::size_t k = 0; k < count; ++k) x.push_back(contribution(begin + k, u, i));
        for (std::size_t s = 1; s < count; s *= 2)
            for (std::size_t k = 0; k + s < count; k += 2 * s) x[k] += x[k + s];
        return x[0];
    };
    auto const& booked = observe::ledger()[observe::Category::gradients].now;
    for (bool const bucketed : {false, true})
        for (std::size_t count : {1u, 2u, 3u, 6u, 7u, 8u, 12u}) {
            std::size_t const before = booked;
            Gradients         strategy{{std::vector<float>(40000), std::vector<float>(70)}, {}};
            if (bucketed) strategy.all = state::unit_buckets(units);
            GradientTree<float, tensor::ArenaStorage> gradients(units, {.reproducible = true}, comm::Wire::fp32, 4);
            for (int step = 0; step < 2; ++step) {
                gradients.restart(count);
                for (std::size_t m = 0; m < count; ++m) {
                    for (std::size_t u = 0; u < 2; ++u)
                        for (std::size_t i = 0; i < units[u].size; ++i) strategy.units[u][i] += contribution(m, u, i);
                    for (std::size_t b = 0; m + 1 == count && b < strategy.all.size(); ++b) gradients.finish(b, strategy);
                    gradients.add(m, strategy);
                }
                bool right = true;
                for (std::size_t u = 0; u < 2; ++u)
                    for (std::size_t i = 0; i < units[u].size; ++i) {
                        right                = right && strategy.units[u][i] == sum(0, count, u, i);
                        strategy.units[u][i] = 0;
                    }
                CHECK(right);
            }
            CHECK(booked - before == partial_sums(count) * 40070 * sizeof(float));
        }
}

TEST_CASE("what cannot be reproducible is refused") {
    std::vector<state::Unit> const units(1);
    auto const                     make = [&](parallel::Options const& options, std::size_t ranks, comm::Wire wire = comm::Wire::fp32) {
        GradientTree<float, tensor::ArenaStorage>(units, {.reproducible = true, .strategy = options}, wire, ranks);
    };
    CHECK_NOTHROW(make({}, 1));
    CHECK_NOTHROW(make({.wire = comm::Wire::fp32}, 8, comm::Wire::bf16));
    CHECK_THROWS_WITH_AS(make({}, 3), "reproducible: expected a power of two of ranks, found 3", Error);
    CHECK_THROWS_WITH_AS(make({}, 2, comm::Wire::bf16), doctest::Contains("expected an fp32 wire, found bf16"), Error);
    CHECK_THROWS_WITH_AS(make({.reduction = comm::Reduction::vendor}, 2), doctest::Contains("expected an ordered reduction"), Error);
    CHECK_THROWS_WITH_AS(make({.accumulate = parallel::Accumulate::sharded}, 2), doctest::Contains("add up in each rank"), Error);
}

}  // namespace gradient_tree_test
