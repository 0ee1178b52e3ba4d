#include "lockstep/state/bucket.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace bucket_test {

using namespace lockstep::state;
using lockstep::Range;

/// Vectors of these sizes, one after another.
Unit unit_of(std::string name, std::vector<std::size_t> const& sizes) {
    Unit unit{.name = std::move(name), .parameters = {}};
    for (std::size_t size : sizes) {
        Parameter parameter{
            .name = "p" + std::to_string(unit.parameters.size()), .rows = size, .map = {size, 1}, .offset = unit.size, .initial = {}};
        unit.size += size;
        unit.parameters.push_back(parameter);
    }
    return unit;
}

std::vector<Unit> const units{unit_of("root", {10, 4}), unit_of("h.0", {5, 1, 6}), unit_of("h.1", {5, 1, 6})};

std::vector<Range> ranges(std::vector<GradientBucket> const& buckets) {
    std::vector<Range> result;
    for (GradientBucket const& bucket : buckets) result.push_back(bucket.range);
    return result;
}

TEST_CASE("units lie one after another in the flat buffer") {
    CHECK(unit_offsets(units) == std::vector<std::size_t>{0, 14, 26, 38});
    CHECK(unit_offsets({}) == std::vector<std::size_t>{0});
}

TEST_CASE("buckets cut the flat buffer from its end without gaps, and close when they are full") {
    CHECK(ranges(backward_buckets(units, 0, 0)) ==
          std::vector<Range>{{32, 38}, {31, 32}, {26, 31}, {20, 26}, {19, 20}, {14, 19}, {10, 14}, {0, 10}});
    CHECK(ranges(backward_buckets(units, 7, 7)) == std::vector<Range>{{31, 38}, {20, 31}, {10, 20}, {0, 10}});
    CHECK(ranges(backward_buckets(units, 1, 1000)) == std::vector<Range>{{32, 38}, {0, 32}});
    CHECK(ranges(backward_buckets(units, 1000, 1000)) == std::vector<Range>{{0, 38}});
    CHECK(backward_buckets({}, 1, 1).empty());
    CHECK(ranges(unit_buckets(units)) == std::vector<Range>{{26, 38}, {14, 26}, {0, 14}});
}

TEST_CASE("each parameter is a member of exactly one bucket, which holds its range") {
    for (auto const& buckets : {backward_buckets(units, 0, 0), backward_buckets(units, 3, 9), unit_buckets(units)}) {
        std::vector<std::vector<int>> members{{0, 0}, {0, 0, 0}, {0, 0, 0}};
        for (GradientBucket const& bucket : buckets)
            for (auto [unit, parameter] : bucket.members) {
                ++members[unit][parameter];
                std::size_t const begin = unit_offsets(units)[unit] + units[unit].parameters[parameter].offset;
                CHECK(bucket.range.begin <= begin);
                CHECK(begin + units[unit].parameters[parameter].size() <= bucket.range.end);
            }
        CHECK(members == std::vector<std::vector<int>>{{1, 1}, {1, 1, 1}, {1, 1, 1}});
    }
}

TEST_CASE("a bucket is ready with the last use of its last parameter, in any order, again in each backward pass") {
    std::vector<Unit> shared     = units;
    shared[0].parameters[0].uses = 2;  // a tied embedding
    auto const buckets           = backward_buckets(shared, 7, 7);
    Readiness  readiness(shared, buckets);
    for (int pass = 0; pass < 2; ++pass) {
        readiness.restart();
        CHECK_FALSE(readiness.contributed(0, 0));  // the head, long before the embedding
        CHECK_FALSE(readiness.contributed(2, 1));
        CHECK(readiness.contributed(2, 2) == BucketIndex{0});
        CHECK_FALSE(readiness.contributed(2, 0));
        CHECK(readiness.contributed(1, 2) == BucketIndex{1});
        CHECK_FALSE(readiness.contributed(0, 1));
        CHECK_FALSE(readiness.contributed(1, 0));
        CHECK(readiness.contributed(1, 1) == BucketIndex{2});
        CHECK(readiness.contributed(0, 0) == BucketIndex{3});
    }
}

TEST_CASE("a pass that was broken off leaves nothing behind") {
    auto const buckets = unit_buckets(units);
    Readiness  readiness(units, buckets);
    readiness.contributed(2, 0);
    readiness.contributed(2, 1);
    readiness.restart();
    CHECK_FALSE(readiness.contributed(2, 2));
    CHECK_FALSE(readiness.contributed(2, 1));
    CHECK(readiness.contributed(2, 0) == BucketIndex{0});
}

TEST_CASE("without buckets nothing is ever ready") {
    Readiness readiness(units, {});
    for (std::size_t p = 0; p < 3; ++p) CHECK_FALSE(readiness.contributed(1, p));
}

}  // namespace bucket_test
