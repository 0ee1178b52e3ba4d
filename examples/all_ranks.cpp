// The classic check that all ranks hear each other, then the ways in which they can talk. Run it on any number of ranks:
//   mpiexec -n 4 all_ranks

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/environment.hpp"

namespace ls = lockstep;
using ls::comm::Communicator;
using ls::comm::Request;

namespace {

std::string text(std::vector<int> const& values) {
    std::string line = "[";
    for (std::size_t i = 0; i < values.size(); ++i) line += (i == 0 ? "" : ", ") + std::to_string(values[i]);
    return line + "]";
}

/// Prints one line a rank, in rank order: rank 0 collects them, because nothing else orders the output of processes.
void print(Communicator const& ranks, std::string const& line) {
    if (ranks.rank() != 0) {
        std::array const length{line.size()};
        ranks.send(length, 0);
        ranks.send(line, 0);
        return;
    }
    std::printf("  rank 0: %s\n", line.c_str());
    for (int rank = 1; rank < ranks.size(); ++rank) {
        std::array<std::size_t, 1> length{};
        ranks.receive(length, rank);
        std::string other(length[0], ' ');
        ranks.receive(other, rank);
        std::printf("  rank %d: %s\n", rank, other.c_str());
    }
    std::fflush(stdout);
}

/// Rank 0 announces what comes next.
void title(Communicator const& ranks, std::string const& words) {
    if (ranks.rank() == 0) std::printf("%s\n", words.c_str());
}

void expect(std::vector<int> const& found, std::vector<int> const& expected, char const* what) {
    if (found != expected) ls::peer_error(what, ": expected ", text(expected), ", found ", text(found));
}

int lesson(Communicator const& world) {
    int const rank = world.rank();
    int const size = world.size();

    // Everyone contributes its rank four times, and everyone gets the sums: 0 + 1 + ... + (size-1). On 4 ranks [6, 6, 6, 6].
    title(world, "all_reduce: the sum of all ranks");
    std::vector<int> values(4, rank);
    world.all_reduce(values);
    print(world, text(values));
    expect(values, std::vector<int>(4, size * (size - 1) / 2), "all_reduce");

    // A group has ranks and messages of its own. Even and odd ranks sum among themselves.
    title(world, "split: even and odd ranks sum apart");
    Communicator const group = world.split(rank % 2);
    std::vector<int>   sum{group.sum(rank)};
    print(world, text(sum) + " as rank " + std::to_string(group.rank()) + " of " + std::to_string(group.size()));
    int members = 0;
    for (int other = rank % 2; other < size; other += 2) members += other;
    expect(sum, {members}, "split");

    // One rank has something that all need.
    title(world, "broadcast: the last rank knows three numbers");
    std::vector<int> numbers = rank == size - 1 ? std::vector<int>{3, 1, 4} : std::vector<int>(3);
    world.broadcast(numbers, size - 1);
    print(world, text(numbers));
    expect(numbers, {3, 1, 4}, "broadcast");

    // Each rank tells the next one. Both directions start before either is waited for: nobody blocks the ring.
    title(world, "point to point: a token from the rank before");
    std::vector<int> const token{100 + rank};
    std::vector<int>       received(1);
    Request                receipt  = world.start_receive(received, (rank + size - 1) % size);
    Request                delivery = world.start_send(token, (rank + 1) % size);
    receipt.wait();
    delivery.wait();
    print(world, text(received));
    expect(received, {100 + (rank + size - 1) % size}, "point to point");

    // What a training step uses: sums in a fixed order, of parts that need not be even. The bits of a float sum then do not depend
    // on how the buffer was cut. Nobody waits for MPI here but in `wait`; a kernel could run after `start`.
    title(world, "ordered reduction: one float a rank, kept apart, then gathered");
    std::vector<float>     gradients(static_cast<std::size_t>(size), 0.5f * static_cast<float>(rank));
    auto                   sums = world.ordered_reduction(ls::comm::equal_parts(1, size), ls::comm::Wire::fp32, 0);
    std::vector<std::byte> scratch(sums.scratch_bytes());
    sums.start(gradients, {}, false, ls::comm::Result::gathered, scratch);
    sums.wait();
    std::vector<int> twice(gradients.size());
    for (std::size_t i = 0; i < twice.size(); ++i) twice[i] = static_cast<int>(2 * gradients[i]);
    print(world, text(twice) + " halves");
    expect(twice, std::vector<int>(gradients.size(), size * (size - 1) / 2), "ordered reduction");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    ls::comm::Environment mpi{argc, argv};
    return mpi.run([&] { return lesson(mpi.world()); });  // an error that one rank raises ends all of them, with its exit code
}
