#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/environment.hpp"
#include "lockstep/core/exact_sum.hpp"
#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/state/shard.hpp"

namespace collectives_test {

using namespace lockstep;
using comm::Combine;
using comm::Communicator;
using comm::Request;
using lockstep::Range;

comm::Environment& environment() {
    static comm::Environment instance;
    return instance;
}
Communicator const& world() { return environment().world(); }
int                 rank() { return world().rank(); }
int                 size() { return world().size(); }

template <class R>
concept can_be_combined = requires(Communicator const& ranks, R& data) {
    ranks.all_reduce(data);
};
static_assert(can_be_combined<std::vector<float>> && can_be_combined<std::vector<std::uint16_t>>);
static_assert(!can_be_combined<std::vector<precision::bfloat16>>, "MPI never sums narrow floats");

/// All combinations over the ranks of i + rank, in place and not.
template <class T>
void check_all_reduce(std::size_t count, std::size_t chunk_bytes) {
    Communicator const ranks = world().with_chunk_bytes(chunk_bytes);
    for (Combine combine : {Combine::sum, Combine::max, Combine::min}) {
        std::vector<T> send(count), receive(count);
        for (std::size_t i = 0; i < count; ++i) send[i] = static_cast<T>(i + static_cast<std::size_t>(rank()));
        std::vector<T> in_place = send;
        ranks.all_reduce(send, receive, combine);
        ranks.all_reduce(in_place, in_place, combine);
        CHECK(receive == in_place);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i) {
            auto const last = static_cast<std::size_t>(size() - 1);
            auto const sum  = i * static_cast<std::size_t>(size()) + last * (last + 1) / 2;
            wrong += receive[i] != static_cast<T>(combine == Combine::sum ? sum : combine == Combine::max ? i + last : i);
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("all_reduce sums and finds extremes of integers and floats, in chunks of any size") {
    for (std::size_t chunk : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 30})
        for (std::size_t count : {0u, 1u, 7u, 40u}) {
            check_all_reduce<float>(count, chunk);
            check_all_reduce<double>(count, chunk);
            check_all_reduce<std::int8_t>(count, chunk);
            check_all_reduce<std::uint16_t>(count, chunk);
            check_all_reduce<int>(count, chunk);
            check_all_reduce<std::size_t>(count, chunk);
            check_all_reduce<long long>(count, chunk);
        }
    check_all_reduce<double>(100000, 1 << 14);
}

TEST_CASE("TRAPS 27: send and receive buffer may be the same, and zero elements are a no-op") {
    Communicator const pair = world().split(rank() / 2);
    std::vector<int>   value{pair.rank() + 1};
    pair.all_reduce(value, value);
    CHECK(value[0] == (pair.size() == 2 ? 3 : 1));

    std::array<float, 0> nothing{};
    std::span<float>     null;
    pair.all_reduce(nothing);
    pair.all_reduce(null, null);
    pair.broadcast(null, 0);
    pair.all_gather(null, null);
    pair.all_gather(null, std::vector<Range>(static_cast<std::size_t>(pair.size())));
    pair.reduce_scatter(null, null);
    pair.start_sum({}).wait();
    Request receipt  = pair.start_receive(null, 0);
    Request delivery = pair.start_send(null, 0);
    CHECK(receipt.test());
    CHECK(delivery.test());

    std::vector<int> all(static_cast<std::size_t>(pair.size()), -1);
    auto const       mine = std::span(all).subspan(static_cast<std::size_t>(pair.rank()), 1);
    mine[0]               = pair.rank() + 1;
    pair.all_gather(mine, all);
    for (int i = 0; i < pair.size(); ++i) CHECK(all[static_cast<std::size_t>(i)] == i + 1);
    pair.reduce_scatter(all, mine);
    CHECK(mine[0] == pair.size() * (pair.rank() + 1));
}

TEST_CASE("broadcast comes from any root") {
    for (std::size_t chunk : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 30})
        for (int root = 0; root < size(); ++root) {
            std::vector<precision::bfloat16> data(33, precision::bfloat16(static_cast<float>(rank())));
            world().with_chunk_bytes(chunk).broadcast(data, root);
            CHECK(std::ranges::all_of(data, [&](auto x) { return static_cast<float>(x) == static_cast<float>(root); }));
        }
}

TEST_CASE("TRAPS 16: uneven and empty parts are gathered where they belong") {
    auto const ranks = static_cast<std::size_t>(size());
    for (std::size_t chunk : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 30})
        for (std::size_t count : {7u, 5u, 3u, 1u, 100u}) {
            auto const       parts = state::even_ranges({2, 2 + count}, ranks);
            std::vector<int> data(count + 4, -1);
            for (std::size_t i = parts[static_cast<std::size_t>(rank())].begin; i < parts[static_cast<std::size_t>(rank())].end; ++i)
                data[i] = static_cast<int>(i);
            world().with_chunk_bytes(chunk).all_gather(data, parts);
            for (std::size_t i = 0; i < data.size(); ++i) CHECK(data[i] == (i < 2 || i >= count + 2 ? -1 : static_cast<int>(i)));
        }
    if (ranks == 4) {
        std::vector<std::size_t> sizes;
        for (Range part : state::even_ranges({0, 5}, 4)) sizes.push_back(part.size());
        CHECK(sizes == std::vector<std::size_t>{2, 2, 1, 0});
    }
}

TEST_CASE("reduce_scatter leaves to each rank its part, uneven or empty, in place or not") {
    auto const ranks = static_cast<std::size_t>(size());
    for (std::size_t chunk : {std::size_t{1}, std::size_t{28}, std::size_t{1} << 30})
        for (std::size_t count : {0u, 3u, 7u, 61u}) {
            auto const          parts = state::even_ranges({1, 1 + count}, ranks);
            Range const         part  = parts[static_cast<std::size_t>(rank())];
            std::vector<double> data(count + 2), mine(part.size());
            for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<double>(i) * (rank() + 1);
            Communicator const limited = world().with_chunk_bytes(chunk);
            limited.reduce_scatter(data, parts, mine);
            auto const inside = std::span(data).subspan(part.begin, part.size());
            limited.reduce_scatter(data, parts, inside);
            double const times = static_cast<double>(ranks * (ranks + 1)) / 2;
            for (std::size_t i = 0; i < part.size(); ++i) {
                CHECK(mine[i] == static_cast<double>(part.begin + i) * times);
                CHECK(inside[i] == mine[i]);
            }
            CHECK(data[0] == 0);
        }
    std::vector<int> equal(3 * ranks, rank()), mine(3, -1);
    world().reduce_scatter(equal, mine, Combine::max);
    CHECK(mine == std::vector<int>(3, size() - 1));
}

TEST_CASE("groups are split by color and ordered by key") {
    Communicator const parity = world().split(rank() % 2, -rank());
    CHECK(parity.size() == (size() + 1 - rank() % 2) / 2);
    CHECK(parity.rank() == parity.size() - 1 - rank() / 2);
    int members = 0;
    for (int other = rank() % 2; other < size(); other += 2) members += other;
    CHECK(parity.sum(rank()) == members);
    CHECK(parity.max(rank()) >= rank());
    CHECK_THROWS_WITH_AS((void)world().split(-1), doctest::Contains("color -1"), Error);
}

TEST_CASE("all ranks of this test are on one node") {
    Communicator const node = world().node();
    CHECK(node.size() == size());
    CHECK(node.rank() == rank());
}

TEST_CASE("a communicator lives on in its copies and groups") {
    auto const group_of_temporary = [] {
        Communicator const temporary = world().duplicate();
        return temporary.split(0);
    }();
    Communicator const copy = group_of_temporary;  // NOLINT: the copy is what is tested
    CHECK(copy.sum(1) == size());
}

TEST_CASE("collectives of two communicators overlap") {
    Communicator const        other = world().duplicate();
    std::vector<std::int64_t> a(1000, 1), b(1000, rank());
    std::vector<int>          c(500, rank());
    Request                   ra = world().start_sum(a);
    Request                   rb = other.start_all_reduce(b, Combine::max);
    Request                   rc = world().start_broadcast(c, size() - 1);
    if (rank() % 2 == 0) {
        rb.wait();
        rc.wait();
    }
    ra.wait();
    rc.wait();
    rb.wait();
    CHECK(a == std::vector<std::int64_t>(1000, size()));
    CHECK(b == std::vector<std::int64_t>(1000, size() - 1));
    CHECK(c == std::vector<int>(500, size() - 1));
}

TEST_CASE("an exact sum over the ranks is exact") {
    ExactSum sum;
    sum += rank() == 0 ? 1e300 : 0x1p-1000;
    if (rank() == size() - 1) sum += size() == 1 ? 0x1p-1000 : 0.0;
    if (rank() == size() - 1) sum += -1e300;
    std::array<std::int64_t, ExactSum::words> words{};
    std::ranges::copy(sum.limbs(), words.begin());
    Request request = world().start_sum(words);
    request.wait();
    CHECK(ExactSum(words).value() == (size() == 1 ? 1 : size() - 1) * 0x1p-1000);
}

TEST_CASE("one value of each rank is gathered in rank order") {
    std::uint64_t const all_bits = std::numeric_limits<std::uint64_t>::max();
    auto const          values   = world().gather_values(all_bits - static_cast<std::uint64_t>(rank()));
    REQUIRE(values.size() == static_cast<std::size_t>(size()));
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == all_bits - i);
}

TEST_CASE("nobody leaves a barrier before all have come") {
    std::array<int, 1> arrived{0};
    if (rank() != 0) {
        world().send(arrived, 0);
        world().barrier();
    } else {
        Request barrier = world().start_barrier();
        for (int other = 1; other < size(); ++other) world().receive(arrived, other);
        barrier.wait();
    }
    Communicator const later = world().duplicate();
    Request            open;
    if (rank() == 0 && size() > 1) {
        std::array<int, 1> go{};
        later.receive(go, size() - 1);  // sent before the last rank enters
    }
    if (rank() == size() - 1 && size() > 1) later.send(arrived, 0);
    open = later.start_barrier();
    open.wait();
    CHECK(open.test());
}

TEST_CASE("sizes that do not match are refused") {
    std::vector<float> two(2), three(3);
    CHECK_THROWS_WITH_AS(world().all_reduce(two, three), doctest::Contains("sends 2 elements, receives 3"), Error);
    CHECK_THROWS_WITH_AS(world().all_gather(two, std::vector<Range>(static_cast<std::size_t>(size()), Range{0, 3})),
                         doctest::Contains("ends at 3 of 2"), Error);
    CHECK_THROWS_WITH_AS(world().reduce_scatter(two, std::vector<Range>(static_cast<std::size_t>(size())), three),
                         doctest::Contains("has 0 elements"), Error);
}

}  // namespace collectives_test
