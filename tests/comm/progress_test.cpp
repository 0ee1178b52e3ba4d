// The progress engine: tasks of all urgencies at once, in time or late, by a thread or inside.

#include "lockstep/comm/progress_engine.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/environment.hpp"
#include "reduction_cases.hpp"

namespace progress_test {

using namespace lockstep;
using comm::Collective;
using comm::Communicator;
using comm::Progress;
using comm::ProgressEngine;
using comm::Reduction;
using comm::Result;
using comm::Task;
using comm::Urgency;
using comm::Window;
using comm::Wire;
using comm_test::contribution;
using comm_test::same_bits;
using comm_test::scramble;
using comm_test::serial_tree;

comm::Environment& environment() {
    static comm::Environment instance;
    return instance;
}
Communicator const& world() { return environment().world(); }
std::size_t         rank() { return static_cast<std::size_t>(world().rank()); }

constexpr Progress policies[]{Progress::thread, Progress::inside};

ProgressEngine::Settings settings(Progress policy, double timeout = 60) { return {.policy = policy, .rank = rank(), .timeout = timeout}; }

/// An operation as a task; `open` holds it back.
template <class Operation>
struct Running : Task {
    Running(Operation op, Urgency urgency, comm::Subject subject) : Task(&step, &forget, urgency, subject), operation(std::move(op)) {}

    static bool step(Task& task, Window& window) {
        auto& self = static_cast<Running&>(task);
        return self.open && self.operation.advance(window);
    }
    static void forget(Task& task) noexcept { static_cast<Running&>(task).operation.abandon(); }

    Operation         operation;
    std::atomic<bool> open{true};
};

/// A reduction with its buffers.
struct Bucket : Running<comm::AnyReduction<float>> {
    comm_test::Cut         cut;
    Wire                   wire;
    std::vector<float>     buffer, mine;
    std::vector<std::byte> scratch;
    std::uint64_t          seed = 0;

    Bucket(comm_test::Cut parts, Communicator const& ranks, int channel, Wire how = Wire::fp32, Reduction who = Reduction::ordered)
        : Running(ranks.reduction<float>(parts.parts, how, who, channel), Urgency::gradients,
                  {Collective::all_reduce, "bucket", static_cast<std::size_t>(channel), 0, parts.size * sizeof(float)}),
          cut(parts),
          wire(how),
          buffer(cut.size),
          mine(cut.parts[rank()].size()),
          scratch(operation.scratch_bytes()) {}

    void issue(ProgressEngine& engine, std::uint64_t round, Result result) {
        seed = round;
        for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = contribution<float>(seed, rank(), i);
        operation.prepare(buffer, mine, false, result, scratch);
        engine.issue(*this);
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
};

/// A gather whose elements name their owner, position and round.
struct Gathered : Running<comm::AllGather<std::uint32_t>> {
    comm_test::Cut             cut;
    std::vector<std::uint32_t> buffer;
    std::uint64_t              seed = 0;

    Gathered(comm_test::Cut parts, Communicator const& ranks, int channel, Reduction who = Reduction::ordered)
        : Running(ranks.all_gather<std::uint32_t>(parts.parts, channel, who), Urgency::parameters,
                  {Collective::all_gather, "unit", static_cast<std::size_t>(channel), 0, parts.size * 4}),
          cut(parts),
          buffer(cut.size) {}

    static std::uint32_t element(std::uint64_t round, std::size_t owner, std::size_t i) {
        return static_cast<std::uint32_t>(scramble(round + owner, i));
    }
    void issue(ProgressEngine& engine, std::uint64_t round) {
        seed = round;
        for (std::size_t i = cut.parts[rank()].begin; i < cut.parts[rank()].end; ++i) buffer[i] = element(seed, rank(), i);
        operation.prepare(buffer);
        engine.issue(*this);
    }
    std::size_t wrong() const {
        std::size_t count = 0;
        for (std::size_t owner = 0; owner < cut.parts.size(); ++owner)
            for (std::size_t i = cut.parts[owner].begin; i < cut.parts[owner].end; ++i) count += buffer[i] != element(seed, owner, i);
        return count;
    }
};

/// Equal parts.
comm_test::Cut equal(std::size_t elements) {
    return {comm::equal_parts(elements, world().size()), elements * static_cast<std::size_t>(world().size())};
}

TEST_CASE("reductions and gathers in flight together have the right bits, whatever the policy, the chunks, the depth and the delays") {
    std::size_t wrong = 0;
    for (Progress const policy : policies)
        for (std::size_t const chunk : {std::size_t{200}, std::size_t{4096}, std::size_t{1} << 30})
            for (std::size_t const depth : {1u, 4u}) {
                auto setting                                = settings(policy);
                setting.depth                               = depth;
                Communicator const                     sums = world().duplicate().with_chunk_bytes(chunk), weights = sums.duplicate();
                std::vector<std::unique_ptr<Bucket>>   buckets;
                std::vector<std::unique_ptr<Gathered>> gathers;
                auto const                             count = static_cast<std::size_t>(world().size());
                for (int c = 0; c < 4; ++c) {
                    auto const shape = static_cast<std::uint64_t>(c);
                    buckets.push_back(std::make_unique<Bucket>(comm_test::random_parts(shape, count, 900), sums, c,
                                                               c % 2 == 0 ? Wire::fp32 : Wire::bf16));
                    gathers.push_back(std::make_unique<Gathered>(comm_test::random_parts(9 + shape, count, 700), weights, c));
                }
                ProgressEngine engine(setting);
                for (std::uint64_t round = 0; round < 6; ++round) {
                    Result const result = round % 2 == 0 ? Result::gathered : Result::scattered;
                    for (std::size_t i = 0; i < 4; ++i) {
                        if (scramble(round * 8 + rank(), i + chunk) % 3 == 0)
                            std::this_thread::sleep_for(std::chrono::microseconds(scramble(round, i + rank()) % 2000));
                        buckets[i]->issue(engine, 100 * round + i, result);
                        gathers[i]->issue(engine, 100 * round + i);
                        engine.advance();
                    }
                    for (std::size_t i = 0; i < 4; ++i) {
                        std::size_t const pick = (i + rank()) % 4;  // ranks wait in different orders
                        engine.wait(*buckets[pick]);
                        wrong += buckets[pick]->wrong(result);
                        engine.wait(*gathers[3 - pick]);
                        wrong += gathers[3 - pick]->wrong();
                    }
                }
            }
    CHECK(wrong == 0);
}

TEST_CASE("an urgent collective overtakes a large one that was issued before it") {
    for (Progress const policy : policies) {
        Communicator const sums = world().duplicate().with_chunk_bytes(1024), weights = sums.duplicate();
        Bucket             large(equal(std::size_t{1} << 18), sums, 0);  // 1024 chunks to each rank, twice
        Gathered           urgent(equal(25600), weights, 0);             // 100 chunks
        ProgressEngine     engine(settings(policy));
        large.open = false;
        large.issue(engine, 1, Result::gathered);
        urgent.issue(engine, 1);
        large.open = true;
        engine.wait(large);
        engine.wait(urgent);
        if (world().size() > 1) CHECK(large.issued_as() < urgent.issued_as());
        if (world().size() > 1) CHECK(urgent.finished_as() < large.finished_as());
        CHECK(large.wrong(Result::gathered) == 0);
        CHECK(urgent.wrong() == 0);
    }
}

TEST_CASE("a large one goes on while an urgent one waits for a rank that is late") {
    if (world().size() == 1) return;
    for (Progress const policy : policies) {
        // Chunks that MPI does not send before the other side asks for them.
        Communicator const sums = world().duplicate().with_chunk_bytes(std::size_t{1} << 17), weights = sums.duplicate();
        Bucket             large(equal(std::size_t{1} << 18), sums, 0);
        Gathered           urgent(equal(std::size_t{1} << 18), weights, 0);
        ProgressEngine     engine(settings(policy, 20));
        large.issue(engine, 1, Result::gathered);
        if (rank() == 0) {
            engine.wait(large);  // before it issues what the others have given way to
            CHECK(large.finished_as() == 1);
        }
        urgent.issue(engine, 1);
        engine.wait_all();
        CHECK(large.wrong(Result::gathered) == 0);
        CHECK(urgent.wrong() == 0);
    }
}

TEST_CASE("the vendor's collectives give the same gathers and sums that are close, in any mixture") {
    for (Progress const policy : policies)
        for (std::size_t const chunk : {std::size_t{256}, std::size_t{1} << 30}) {
            Communicator const sums = world().duplicate().with_chunk_bytes(chunk), weights = sums.duplicate();
            Bucket   first(equal(3000), sums, 0, Wire::fp32, Reduction::vendor), second(equal(500), sums, 1, Wire::fp32, Reduction::vendor);
            Gathered a(equal(700), weights, 0, Reduction::vendor), b(equal(3), weights, 1, Reduction::vendor);
            ProgressEngine engine(settings(policy));
            for (std::uint64_t round = 0; round < 4; ++round) {
                Result const result = round % 2 == 0 ? Result::gathered : Result::scattered;
                first.issue(engine, round, result);
                a.issue(engine, round);
                second.issue(engine, round + 50, result);
                b.issue(engine, round);
                engine.wait_all();
                CHECK(a.wrong() + b.wrong() == 0);
                for (Bucket const* bucket : {&first, &second})
                    for (std::size_t owner = 0; owner < bucket->cut.parts.size(); ++owner)
                        for (std::size_t i = bucket->cut.parts[owner].begin; i < bucket->cut.parts[owner].end; ++i) {
                            if (result == Result::scattered && owner != rank()) continue;
                            float const found =
                                result == Result::gathered ? bucket->buffer[i] : bucket->mine[i - bucket->cut.parts[owner].begin];
                            float const sum = serial_tree<float>(bucket->seed, bucket->cut.parts.size(), i, Wire::fp32);
                            if (std::abs(found - sum) > 0.01f) FAIL_CHECK("found ", found, ", expected about ", sum);
                        }
            }
        }
    CHECK_THROWS_WITH_AS((void)world().reduction<float>(equal(3).parts, Wire::bf16, Reduction::vendor, 0), doctest::Contains("fp32 wire"),
                         Error);
}

TEST_CASE("others may use MPI while the engine works, also in waits of their own") {
    Communicator const ranks = world().duplicate().with_chunk_bytes(512);
    Communicator const other = world().duplicate();
    Bucket             bucket(equal(20000), ranks, 0);
    ProgressEngine     engine(settings(Progress::thread));
    int                sum = 0;
    for (std::uint64_t round = 0; round < 20; ++round) {
        bucket.issue(engine, round, Result::gathered);
        sum += other.sum(1);
        engine.wait(bucket);
        CHECK(bucket.wrong(Result::gathered) == 0);
    }
    CHECK(sum == 20 * world().size());
}

TEST_CASE("a wait that is too long raises a peer error that names what it waited for, and so do all later ones") {
    if (world().size() == 1) return;
    for (Progress const policy : policies) {
        Communicator const ranks = world().duplicate();
        Bucket             bucket(equal(5), ranks, 7);
        Gathered           gather(equal(5), ranks, 8);
        {
            ProgressEngine engine(settings(policy, 0.2));
            if (rank() != 0) {  // which never comes
                bucket.issue(engine, 1, Result::gathered);
                gather.issue(engine, 1);
                std::string text;
                try {
                    engine.wait(bucket);
                } catch (Error const& error) {
                    CHECK(error.fault() == Fault::peer);
                    text = error.what();
                }
                CHECK_MESSAGE(text.find("rank " + std::to_string(rank()) + ": waited 0.2 s for the AllReduce of bucket 7 (" +
                                        std::to_string(bucket.subject().bytes) + " bytes from this rank), operation 1 of this rank") == 0,
                              text);
                CHECK_THROWS_AS(engine.wait(gather), Error);
                CHECK_THROWS_AS(engine.wait_all(), Error);
            }
        }
        CHECK(bucket.idle());
        CHECK(gather.idle());
    }
    world().barrier();
}

TEST_CASE("a wait for an operation without an engine is limited too") {
    if (world().size() == 1) return;
    Communicator const ranks = world().duplicate().with_timeout(0.2);
    std::vector<float> buffer(3 * static_cast<std::size_t>(ranks.size()));
    if (rank() == 0) {
        std::string const bytes = std::to_string(buffer.size() * sizeof(float));
        CHECK_THROWS_WITH_AS(ranks.all_gather(std::span(buffer).first(3), buffer),
                             doctest::Contains(("rank 0: waited 0.2 s for all_gather of " + bytes + " bytes, agreement ").c_str()), Error);
    }
    world().barrier();
}

TEST_CASE("a failure inside a task reaches whoever waits") {
    struct Failing : Task {
        Failing() : Task(&step, &forget, Urgency::sums, {}) {}
        static bool step(Task&, Window&) { training_error("the task has failed"); }
        static void forget(Task& task) noexcept { static_cast<Failing&>(task).forgotten = true; }
        bool        forgotten = false;
    };
    for (Progress const policy : policies) {
        Failing failing;
        {
            ProgressEngine engine(settings(policy));
            engine.issue(failing);
            CHECK_THROWS_WITH_AS(engine.wait(failing), doctest::Contains("the task has failed"), Error);
        }
        CHECK(failing.forgotten);
        CHECK(failing.idle());
    }
}

TEST_CASE("an engine records when a collective was issued, moved and was waited for") {
    observe::Timeline timeline;
    {
        observe::UseTimeline const use(timeline);
        for (Progress const policy : policies) {
            Communicator const ranks = world().duplicate();
            Bucket             bucket(equal(64), ranks, 3);
            ProgressEngine     engine(settings(policy));
            bucket.open = false;
            bucket.issue(engine, 1, Result::gathered);
            bucket.open = true;
            engine.wait(bucket);
        }
    }
    std::size_t issued = 0, moved = 0;
    for (std::size_t t = 0; t < timeline.tracks(); ++t) {
        std::uint64_t cursor = 0;
        timeline.track(t).read(cursor, [&](observe::Record const& record) {
            if (record.index != 3) return;
            CHECK(record.bytes == 64 * sizeof(float) * static_cast<std::size_t>(world().size()));
            CHECK(record.begin <= record.end);
            issued += record.event == observe::Event::reduction_issued;
            moved += record.event == observe::Event::reduction;
        });
    }
    CHECK(issued == 2);
    CHECK(moved == 2);
}

// The last one: this process waits for no abandoned operation from then on.
TEST_CASE("an exception leaves a rank although its tasks will never end") {
    if (world().size() == 1) return;
    for (Progress const policy : policies) {
        Communicator const ranks = world().duplicate();
        CHECK_THROWS_WITH_AS(
            [&] {
                Bucket         bucket(equal(5), ranks, 0);
                ProgressEngine engine(settings(policy));
                if (rank() != 0) bucket.issue(engine, 1, Result::gathered);
                training_error("the loss is not finite");
            }(),
            doctest::Contains("the loss is not finite"), Error);
    }
    world().barrier();
}

}  // namespace progress_test
