#include "lockstep/comm/communicator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "lockstep/comm/environment.hpp"
#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/state/shard.hpp"
#include "reduction_cases.hpp"

namespace ordered_reduction_test {

using namespace lockstep;
using comm::Communicator;
using comm::Result;
using comm::Wire;
using comm_test::contribution;
using comm_test::same_bits;
using comm_test::serial_tree;
using lockstep::Range;

comm::Environment& environment() {
    static comm::Environment instance;
    return instance;
}
Communicator const& world() { return environment().world(); }

/// Sums `values[rank]` over the ranks for `copies` equal elements and returns what every rank holds.
std::vector<float> sum_of(std::vector<float> const& values, std::size_t copies, Wire wire, Result result, Communicator const& ranks) {
    auto const             parts = state::even_ranges({0, copies}, static_cast<std::size_t>(ranks.size()));
    auto                   sums  = ranks.ordered_reduction(parts, wire, 0);
    std::vector<float>     buffer(copies, values[static_cast<std::size_t>(ranks.rank())]);
    std::vector<std::byte> scratch(sums.scratch_bytes());
    auto const             mine = parts[static_cast<std::size_t>(ranks.rank())];
    std::vector<float>     out(mine.size(), -1.0f);
    sums.start(buffer, out, false, result, scratch);
    sums.wait();
    return result == Result::gathered ? buffer : out;
}

/// One reduction of contributions made from `seed`, compared bit for bit with the serial tree.
template <class T>
void check_against_serial(std::vector<Range> const& parts, std::size_t size, Wire wire, Result result, bool add, std::uint64_t seed,
                          Communicator const& ranks) {
    auto const             me   = static_cast<std::size_t>(ranks.rank());
    auto const             all  = static_cast<std::size_t>(ranks.size());
    auto                   sums = ranks.ordered_reduction<T>(parts, wire, 5);
    std::vector<T>         buffer(size);
    std::vector<std::byte> scratch(sums.scratch_bytes());
    for (std::size_t i = 0; i < size; ++i) buffer[i] = contribution<T>(seed, me, i);
    std::vector<T> const before = buffer;
    std::vector<T>       out(parts[me].size(), T(3));
    sums.start(buffer, result == Result::scattered ? std::span<T>(out) : std::span<T>{}, add, result, scratch);
    sums.wait();
    CHECK(sums.advance());

    std::size_t wrong = 0;
    for (std::size_t rank = 0; rank < all; ++rank)
        for (std::size_t i = parts[rank].begin; i < parts[rank].end; ++i) {
            T const sum = serial_tree<T>(seed, all, i, wire);
            if (result == Result::gathered) wrong += !same_bits(buffer[i], sum);
            if (result == Result::scattered) wrong += !same_bits(buffer[i], before[i]);
            if (result == Result::scattered && rank == me) wrong += !same_bits(out[i - parts[rank].begin], add ? T(3) + sum : sum);
        }
    std::size_t first = size, last = 0;
    for (Range const& part : parts) {
        first = std::min(first, part.begin);
        last  = std::max(last, part.end);
    }
    for (std::size_t i = 0; i < size; ++i)
        if (i < first || i >= last) wrong += !same_bits(buffer[i], before[i]);
    CHECK(wrong == 0);
}

TEST_CASE("TRAPS 11: {256,1,1,1} on a bf16 wire is 259 in fp32 and 260 when it is rounded to bf16, in any order") {
    if (world().size() != 4) return;
    std::array<int, 4> order{0, 1, 2, 3};
    do {
        std::vector<float> values;
        for (int i : order) values.push_back(i == 0 ? 256.0f : 1.0f);
        for (Result result : {Result::scattered, Result::gathered})
            for (float sum : sum_of(values, 9, Wire::bf16, result, world())) {
                CHECK(sum == 259.0f);
                CHECK(static_cast<float>(precision::bfloat16(sum)) == 260.0f);  // sums rounded at every hop stay at 256
            }
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("TRAPS 11: each contribution is rounded to bf16 once, the own one too") {
    auto const         ranks = static_cast<std::size_t>(world().size());
    std::vector<float> values(ranks, 1.01171875f);  // rounds to 1.015625
    for (float sum : sum_of(values, 5, Wire::bf16, Result::gathered, world())) CHECK(sum == 1.015625f * static_cast<float>(ranks));
    for (float sum : sum_of(values, 5, Wire::fp32, Result::gathered, world())) CHECK(sum == 1.01171875f * static_cast<float>(ranks));
}

TEST_CASE("TRAPS 12: {1e8,-1e8,1,1} in fp32 sums to 2 whatever the parts and the size of the bucket") {
    if (world().size() != 4) return;
    std::vector<float> const values{1e8f, -1e8f, 1.0f, 1.0f};
    for (std::size_t size : {1u, 2u, 3u, 4u, 5u, 7u, 64u, 1000u, 5000u})
        for (Result result : {Result::scattered, Result::gathered})
            for (std::size_t bytes : {std::size_t{4}, std::size_t{28}, std::size_t{1} << 30}) {
                if (bytes < 1000 && size > 1000) continue;
                for (float sum : sum_of(values, size, Wire::fp32, result, world().with_chunk_bytes(bytes))) CHECK(sum == 2.0f);
            }
}

TEST_CASE("TRAPS 16: shards of 7, 5 and 3 elements are uneven or empty and sum right") {
    auto const ranks = static_cast<std::size_t>(world().size());
    for (std::size_t size : {7u, 5u, 3u, 1u, 0u}) {
        std::vector<Range> parts;
        for (Range range : state::even_ranges({0, size}, ranks)) parts.push_back({range.begin, range.end});
        if (ranks == 4 && size == 5) {
            CHECK(parts[2].size() == 1);
            CHECK(parts[3].size() == 0);
        }
        for (Result result : {Result::scattered, Result::gathered})
            check_against_serial<float>(parts, size, Wire::fp32, result, false, size, world());
    }
}

TEST_CASE("random parts sum to the bits of the serial tree, for each wire, result, type and chunk limit") {
    auto const ranks = static_cast<std::size_t>(world().size());
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        auto const [parts, size]   = comm_test::random_parts(seed, ranks, seed % 7 == 0 ? 20000 : 300);
        std::size_t const  bytes   = seed % 7 == 0 ? 4096 : seed % 3 == 0 ? 1 : seed % 3 == 1 ? 7 : std::size_t{1} << 30;
        Communicator const limited = world().with_chunk_bytes(bytes);
        for (Wire wire : {Wire::fp32, Wire::bf16}) {
            check_against_serial<float>(parts, size, wire, Result::scattered, seed % 2 == 0, seed, limited);
            check_against_serial<float>(parts, size, wire, Result::gathered, false, seed, limited);
        }
        if (seed % 4 == 0) check_against_serial<double>(parts, size, Wire::fp32, Result::gathered, false, seed, limited);
    }
}

TEST_CASE("NaN and infinity of one rank reach the sum") {
    auto const         ranks = static_cast<std::size_t>(world().size());
    std::vector<float> values(ranks, 1.0f);
    for (Wire wire : {Wire::fp32, Wire::bf16}) {
        values.back() = std::bit_cast<float>(0x7F800001u);  // a NaN whose payload bf16 would cut off
        for (float sum : sum_of(values, 6, wire, Result::gathered, world())) CHECK(std::isnan(sum));
        values.back() = std::numeric_limits<float>::infinity();
        for (float sum : sum_of(values, 6, wire, Result::gathered, world())) CHECK(sum == values.back());
    }
}

TEST_CASE("the sums of my part may replace it in the buffer") {
    auto const               ranks = static_cast<std::size_t>(world().size());
    std::vector<Range> const parts = state::even_ranges({2, 1500}, ranks);
    Range const              mine  = parts[static_cast<std::size_t>(world().rank())];
    for (Wire wire : {Wire::fp32, Wire::bf16}) {
        auto                   sums = world().ordered_reduction(parts, wire, 1);
        std::vector<float>     buffer(1500, static_cast<float>(world().rank() + 1));
        std::vector<std::byte> scratch(sums.scratch_bytes());
        sums.start(buffer, std::span(buffer).subspan(mine.begin, mine.size()), false, Result::scattered, scratch);
        sums.wait();
        std::size_t wrong = 0;
        for (std::size_t i = mine.begin; i < mine.end; ++i) wrong += buffer[i] != static_cast<float>(ranks * (ranks + 1)) / 2;
        CHECK(wrong == 0);
    }
}

TEST_CASE("parts that do not fit, and spans that are too small, are refused by one sentence") {
    auto const ranks = static_cast<std::size_t>(world().size());
    CHECK_THROWS_WITH_AS(world().ordered_reduction(std::vector<Range>(ranks + 1), Wire::fp32, 0),
                         doctest::Contains("expected a part for each of"), Error);
    std::vector<Range> backwards(ranks);
    backwards.back() = {3, 1};
    CHECK_THROWS_WITH_AS(world().ordered_reduction(backwards, Wire::fp32, 0), doctest::Contains("ends at 1 before it begins at 3"), Error);
    CHECK_THROWS_WITH_AS(world().ordered_reduction(std::vector<Range>(ranks), Wire::fp32, 5000), doctest::Contains("channel 5000"), Error);
    auto               sums = world().ordered_reduction(comm::equal_parts(2, world().size()), Wire::bf16, 0);
    std::vector<float> buffer(2 * ranks);
    CHECK_THROWS_WITH_AS(sums.start(std::span(buffer).first(1), {}, false, Result::gathered, {}),
                         doctest::Contains("the buffer has 1 elements"), Error);
    CHECK_THROWS_WITH_AS(sums.start(buffer, {}, false, Result::gathered, {}), doctest::Contains("the scratch has 0 bytes"), Error);
}

}  // namespace ordered_reduction_test
