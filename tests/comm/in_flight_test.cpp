#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/environment.hpp"
#include "lockstep/precision/bfloat16.hpp"
#include "reduction_cases.hpp"

using namespace lockstep;
using comm::Communicator;
using comm::Result;
using comm::Wire;
using comm_test::contribution;
using comm_test::same_bits;
using comm_test::scramble;
using comm_test::serial_tree;
using lockstep::Range;

namespace {
std::atomic<std::size_t> allocations{0};
}

// Not inlined: GCC would see free() for memory of new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    ++allocations;
    if (void* const memory = std::malloc(bytes)) return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

comm::Environment& environment() {
    static comm::Environment instance;
    return instance;
}
Communicator const& world() { return environment().world(); }

/// A reduction with its buffers, restarted round after round.
struct Bucket {
    comm_test::Cut                cut;
    Wire                          wire;
    comm::OrderedReduction<float> sums;
    std::vector<float>            buffer, mine;
    std::vector<std::byte>        scratch;
    std::uint64_t                 seed = 0;

    Bucket(std::uint64_t shape, Wire how, int channel, Communicator const& ranks)
        : cut(comm_test::random_parts(shape, static_cast<std::size_t>(ranks.size()), 900)),
          wire(how),
          sums(ranks.ordered_reduction(cut.parts, how, channel)),
          buffer(cut.size),
          mine(cut.parts[static_cast<std::size_t>(ranks.rank())].size()),
          scratch(sums.scratch_bytes()) {}

    void start(std::uint64_t round, Result result) {
        seed = round;
        for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = contribution<float>(seed, rank(), i);
        sums.start(buffer, mine, false, result, scratch);
    }
    std::size_t wrong(Result result) const {
        std::size_t count = 0;
        for (std::size_t owner = 0; owner < cut.parts.size(); ++owner)
            for (std::size_t i = cut.parts[owner].begin; i < cut.parts[owner].end; ++i) {
                if (result == Result::scattered && owner != rank()) continue;
                float const found = result == Result::gathered ? buffer[i] : mine[i - cut.parts[owner].begin];
                count += !same_bits(found, serial_tree<float>(seed, cut.parts.size(), i, wire));
            }
        return count;
    }
    static std::size_t rank() { return static_cast<std::size_t>(world().rank()); }
};

/// A gather of parts whose elements name their owner, position and round.
struct Gathered {
    comm_test::Cut                       cut;
    comm::AllGather<precision::bfloat16> all;
    std::vector<precision::bfloat16>     buffer;
    std::uint64_t                        seed = 0;

    Gathered(std::uint64_t shape, int channel, Communicator const& ranks)
        : cut(comm_test::random_parts(shape, static_cast<std::size_t>(ranks.size()), 700)),
          all(ranks.all_gather<precision::bfloat16>(cut.parts, channel)),
          buffer(cut.size) {}

    static std::uint16_t element(std::uint64_t round, std::size_t owner, std::size_t i) {
        return static_cast<std::uint16_t>(scramble(round + owner, i));
    }

    void start(std::uint64_t round) {
        seed = round;
        for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = precision::bfloat16::from_bits(element(seed, Bucket::rank(), i));
        all.start(buffer);
    }
    std::size_t wrong() const {
        std::size_t count = 0;
        for (std::size_t owner = 0; owner < cut.parts.size(); ++owner)
            for (std::size_t i = cut.parts[owner].begin; i < cut.parts[owner].end; ++i) count += buffer[i].bits != element(seed, owner, i);
        return count;
    }
};

}  // namespace

TEST_CASE("reductions and gathers of many channels may be in flight together and advance in any order, which differs by rank") {
    Communicator const                     other  = world().duplicate();
    Communicator const                     chunky = world().with_chunk_bytes(64);
    std::vector<std::unique_ptr<Bucket>>   buckets;
    std::vector<std::unique_ptr<Gathered>> gathers;
    for (int channel = 0; channel < 4; ++channel) {
        auto const shape = static_cast<std::uint64_t>(channel);
        Wire const wire  = channel % 2 == 0 ? Wire::fp32 : Wire::bf16;
        buckets.push_back(std::make_unique<Bucket>(shape, wire, channel, channel == 1 ? chunky : world()));
        buckets.push_back(std::make_unique<Bucket>(10 + shape, Wire::fp32, channel, other));
        gathers.push_back(std::make_unique<Gathered>(20 + shape, channel, channel == 2 ? chunky : world()));  // the same channels
    }
    std::size_t wrong = 0;
    for (std::uint64_t round = 0; round < 25; ++round) {
        Result const result = round % 2 == 0 ? Result::gathered : Result::scattered;
        // A reduction may be in its second phase on one rank before its neighbour on the list has started, and not on another one.
        std::vector<bool> started(buckets.size() + gathers.size());
        auto const        advance = [&](std::size_t i) {
            return i < buckets.size() ? buckets[i]->sums.advance() : gathers[i - buckets.size()]->all.advance();
        };
        auto const dawdle = [&](std::size_t i) {
            started[i] = true;
            for (std::uint64_t draw = scramble(round, 77 * i + Bucket::rank()) % 3 * 40; draw > 0; --draw)
                if (std::size_t const pick = draw % started.size(); started[pick]) advance(pick);
        };
        for (std::size_t i = 0; i < gathers.size(); ++i) {
            buckets[2 * i]->start(100 * round + i, result);
            dawdle(2 * i);
            gathers[i]->start(100 * round + i);
            dawdle(buckets.size() + i);
            buckets[2 * i + 1]->start(100 * round + 50 + i, result);
            dawdle(2 * i + 1);
        }
        std::vector<bool> done(buckets.size() + gathers.size());
        std::size_t       open = done.size();
        for (std::uint64_t draw = 0; open > 0; ++draw) {
            std::size_t const pick = scramble(round * 8 + Bucket::rank(), draw) % done.size();
            bool const        over = advance(pick);
            if (over && !done[pick]) --open;
            done[pick] = over;
        }
        for (auto const& bucket : buckets) wrong += bucket->wrong(result);
        for (auto const& gather : gathers) wrong += gather->wrong();
    }
    CHECK(wrong == 0);
}

TEST_CASE("rounds of one channel do not mix when a rank runs ahead") {
    Bucket      bucket(3, Wire::bf16, 7, world());
    std::size_t wrong = 0;
    for (std::uint64_t round = 0; round < 60; ++round) {
        Result const result = round % 3 == 0 ? Result::scattered : Result::gathered;
        bucket.start(round, result);
        bucket.sums.wait();
        wrong += bucket.wrong(result);
    }
    CHECK(wrong == 0);
}

TEST_CASE("an operation that is destroyed without a wait is finished first, for the sake of the others") {
    std::size_t const  each  = 100000;
    auto const         parts = comm::equal_parts(each, world().size());
    std::vector<float> buffer(each * static_cast<std::size_t>(world().size()), 1.0f);
    std::vector<int>   table(buffer.size(), -1);
    for (std::size_t i = 0; i < each; ++i) table[each * Bucket::rank() + i] = world().rank();
    std::size_t wrong = 0;
    {
        auto gather = world().all_gather<int>(parts, 0);
        gather.start(table);
    }
    for (std::size_t i = 0; i < table.size(); ++i) wrong += table[i] != static_cast<int>(i / each);
    CHECK(wrong == 0);
    std::vector<std::byte> scratch;
    {
        auto sums = world().ordered_reduction(parts, Wire::fp32, 0);
        scratch.resize(sums.scratch_bytes());
        sums.start(buffer, {}, false, Result::gathered, scratch);
    }
    for (float sum : buffer) wrong += sum != static_cast<float>(world().size());
    CHECK(wrong == 0);
}

TEST_CASE("operations may move while they are in flight") {
    auto const             parts = comm::equal_parts(300, world().size());
    std::vector<float>     buffer(300 * static_cast<std::size_t>(world().size()), 2.0f);
    auto                   first = world().with_chunk_bytes(100).ordered_reduction(parts, Wire::bf16, 1);
    std::vector<std::byte> scratch(first.scratch_bytes());
    first.start(buffer, {}, false, Result::gathered, scratch);
    auto second = std::move(first);
    CHECK(first.advance());  // NOLINT: nothing is left in it
    auto third = world().ordered_reduction(parts, Wire::fp32, 2);
    third      = std::move(second);
    third.wait();
    std::size_t wrong = 0;
    for (float sum : buffer) wrong += sum != 2.0f * static_cast<float>(world().size());
    CHECK(wrong == 0);
    third.start(buffer, {}, false, Result::gathered, scratch);  // it still works after the move
    third.wait();
    CHECK(buffer.back() == 2.0f * static_cast<float>(world().size() * world().size()));
}

TEST_CASE("operations that are started again, small sums too, allocate nothing") {
    Communicator const        chunky = world().with_chunk_bytes(256);
    Bucket                    bucket(4, Wire::bf16, 1, chunky);
    Gathered                  gather(5, 1, chunky);
    std::vector<std::int64_t> words(68, 1);
    auto const                before = allocations.load();
    for (std::uint64_t round = 0; round < 4; ++round) {
        bucket.start(round, round % 2 == 0 ? Result::gathered : Result::scattered);
        gather.start(round);
        comm::Request sums = world().start_sum(words);
        bucket.sums.wait();
        gather.all.wait();
        sums.wait();
        words[0] = world().max<std::int64_t>(1);
    }
    CHECK(allocations.load() == before);
}

TEST_CASE("an engine that carries the same tasks round after round allocates nothing") {
    struct Reducing : comm::Task {
        Reducing(Bucket& b) : Task(&step, &forget, comm::Urgency::gradients, {}), bucket(b) {}
        static bool step(comm::Task& task, comm::Window& window) { return static_cast<Reducing&>(task).bucket.sums.advance(window); }
        static void forget(comm::Task& task) noexcept { static_cast<Reducing&>(task).bucket.sums.abandon(); }
        Bucket&     bucket;
    };
    for (comm::Progress const policy : {comm::Progress::thread, comm::Progress::inside}) {
        Communicator const   chunky = world().duplicate().with_chunk_bytes(256);
        Bucket               first(4, Wire::bf16, 1, chunky), second(5, Wire::fp32, 2, chunky);
        Reducing             a(first), b(second);
        comm::ProgressEngine engine({.policy = policy});
        std::size_t          before = 0;
        for (std::uint64_t round = 0; round < 6; ++round) {
            if (round == 2) before = allocations.load();
            for (Reducing* task : {&a, &b}) {
                Bucket& bucket = task->bucket;
                bucket.sums.prepare(bucket.buffer, bucket.mine, false, Result::gathered, bucket.scratch);
                engine.issue(*task);
            }
            engine.wait(b);
            engine.wait(a);
        }
        CHECK(allocations.load() == before);
    }
}

TEST_CASE("an operation that is started twice is refused") {
    if (world().size() == 1) return;  // where it may be done at once
    auto const             parts = comm::equal_parts(10, world().size());
    std::vector<float>     buffer(10 * static_cast<std::size_t>(world().size()));
    auto                   sums = world().ordered_reduction(parts, Wire::fp32, 3);
    std::vector<std::byte> scratch(sums.scratch_bytes());
    sums.start(buffer, {}, false, Result::gathered, scratch);
    CHECK_THROWS_WITH_AS(sums.start(buffer, {}, false, Result::gathered, scratch), doctest::Contains("is done"), Error);
    sums.wait();
}
