#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/environment.hpp"
#include "lockstep/precision/float16.hpp"

namespace point_to_point_test {

using namespace lockstep;
using comm::Communicator;
using comm::Request;

comm::Environment& environment() {
    static comm::Environment instance;
    return instance;
}
Communicator const& world() { return environment().world(); }

int next() { return (world().rank() + 1) % world().size(); }
int previous() { return (world().rank() + world().size() - 1) % world().size(); }

/// Sends `count` elements around the ring and checks what arrives.
template <class T>
void check_ring(std::size_t count, std::size_t chunk_bytes) {
    Communicator const ranks = world().with_chunk_bytes(chunk_bytes);
    std::vector<T>     out(count), in(count);
    for (std::size_t i = 0; i < count; ++i) out[i] = T(static_cast<float>(world().rank() + 1) + static_cast<float>(i % 16));
    Request receipt  = ranks.start_receive(in, previous(), 3);
    Request delivery = ranks.start_send(out, next(), 3);
    receipt.wait();
    delivery.wait();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i)
        wrong += static_cast<float>(in[i]) != static_cast<float>(previous() + 1) + static_cast<float>(i % 16);
    CHECK(wrong == 0);
}

TEST_CASE("elements of every type arrive, cut into chunks of any size") {
    for (std::size_t chunk : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 30})
        for (std::size_t count : {0u, 1u, 7u, 8u, 50u}) {
            check_ring<float>(count, chunk);
            check_ring<double>(count, chunk);
            check_ring<std::int8_t>(count, chunk);
            check_ring<std::uint64_t>(count, chunk);
            check_ring<precision::bfloat16>(count, chunk);
            check_ring<precision::float16>(count, chunk);
        }
    check_ring<float>(500000, 65536);
}

TEST_CASE("a pair of ranks talks by blocking calls, bytes and arrays too") {
    if (world().size() < 2 || world().rank() > 1) return;
    std::array<std::byte, 3> bytes{};
    if (world().rank() == 0) {
        bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
        world().send(bytes, 1, 9);
        world().receive(bytes, 1, 9);
        CHECK(bytes[0] == std::byte{7});
    } else {
        world().receive(bytes, 0, 9);
        CHECK(bytes[2] == std::byte{3});
        bytes[0] = std::byte{7};
        world().send(bytes, 0, 9);
    }
}

TEST_CASE("a request destroyed without a wait has waited") {
    std::vector<int> in(40, -1);
    std::vector<int> out(40, world().rank());
    {
        Request receipt  = world().with_chunk_bytes(5).start_receive(in, previous(), 1);
        Request delivery = world().with_chunk_bytes(5).start_send(out, next(), 1);
    }
    CHECK(in == std::vector<int>(40, previous()));
}

TEST_CASE("a request that is assigned to waits for what it held, and a moved one holds nothing") {
    std::vector<int> first(9, -1), second(9, -1), out(9, world().rank());
    Request          delivery = world().start_send(out, next(), 1);
    Request          again    = world().start_send(out, next(), 2);
    Request          receipt  = world().start_receive(first, previous(), 1);
    receipt                   = world().start_receive(second, previous(), 2);
    CHECK(first == std::vector<int>(9, previous()));
    Request moved = std::move(receipt);
    CHECK(receipt.test());  // NOLINT: nothing is left in it
    moved.wait();
    CHECK(moved.test());
    CHECK(second == std::vector<int>(9, previous()));
    CHECK(Request{}.test());
}

TEST_CASE("tags and communicators keep messages apart") {
    Communicator const other = world().duplicate();
    std::array         a{10 + world().rank()}, b{20 + world().rank()}, c{30 + world().rank()};
    std::array         from_a{0}, from_b{0}, from_c{0};
    Request            r1 = world().start_send(a, next(), 1), r2 = world().start_send(b, next(), 2), r3 = other.start_send(c, next(), 1);
    other.receive(from_c, previous(), 1);
    world().receive(from_b, previous(), 2);
    world().receive(from_a, previous(), 1);
    CHECK(from_a[0] == 10 + previous());
    CHECK(from_b[0] == 20 + previous());
    CHECK(from_c[0] == 30 + previous());
}

TEST_CASE("a message of another size than expected is an error that names operation and rank") {
    if (world().size() < 2) return;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // an Environment that initialises MPI does this itself
    std::vector<int> out(3, 1), shorter(2), longer(5);
    Request          r1 = world().start_send(out, next(), 1), r2 = world().start_send(out, next(), 2);
    auto const       name = sentence("rank ", world().rank(), ": receive");
    CHECK_THROWS_WITH_AS(world().receive(longer, previous(), 1),
                         doctest::Contains((name + " expected 20 bytes, the other side sent 12").c_str()), Error);
    CHECK_THROWS_WITH_AS(world().receive(shorter, previous(), 2), doctest::Contains((name + " failed: ").c_str()), Error);
    try {
        std::vector<int> none(1);
        Request          r3 = world().start_send(out, next(), 3);
        world().receive(none, previous(), 3);
        CHECK(false);
    } catch (Error const& error) {
        CHECK(error.fault() == Fault::peer);
    }
}

TEST_CASE("ranks and tags that do not exist are refused") {
    std::array<int, 1> data{};
    CHECK_THROWS_WITH_AS(world().send(data, world().size()), doctest::Contains("is not one of"), Error);
    CHECK_THROWS_WITH_AS(world().receive(data, -1), doctest::Contains("receive: rank -1"), Error);
    CHECK_THROWS_WITH_AS(world().send(data, 0, 16384), doctest::Contains("tag 16384"), Error);
}

}  // namespace point_to_point_test
