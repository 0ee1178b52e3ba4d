#include "lockstep/report/recording.hpp"

#include <doctest/doctest.h>

#include "lockstep/comm/environment.hpp"

namespace recording_test {

using namespace lockstep;
using observe::Event;

comm::Environment& environment() {
    static comm::Environment instance;
    return instance;
}

observe::Records of_rank(int rank, std::uint32_t first, std::uint32_t count) {
    observe::Records records;
    for (std::uint32_t i = first; i < first + count; ++i) {
        observe::Nanoseconds const time = 1000 * rank + static_cast<int>(i);
        records.push_back({Event::backward, 3, i, time, time + 1, i * 7ull});
    }
    return records;
}

TEST_CASE("rank 0 gets the records of all ranks, by thread, on the shared clock") {
    auto const&                world = environment().world();
    int const                  rank  = world.rank();
    observe::Timeline          own;
    observe::UseTimeline const use(own);
    observe::name_thread("step");
    for (auto const& r : of_rank(rank, 0, 5)) observe::record(r);  // before the recording
    own.relate({.at = 0, .offset = 10'000, .drift = 0, .error = 3 * rank});

    report::Recorder recorder;
    recorder.start();
    auto const mine = static_cast<std::uint32_t>(10 + rank);
    for (auto const& r : of_rank(rank, 100, mine)) observe::record(r);
    recorder.copy();
    for (auto const& r : of_rank(rank, 100 + mine, 4)) observe::record(r);
    recorder.copy();
    recorder.copy();
    report::Recording const all = recorder.gather(world, {"root", "h.0"});
    if (rank != 0) {
        CHECK(all.ranks.empty());
        return;
    }
    CHECK(all.units == std::vector<std::string>{"root", "h.0"});
    REQUIRE(all.ranks.size() == static_cast<std::size_t>(world.size()));
    for (int r = 0; r < world.size(); ++r) {
        auto const& found = all.ranks[static_cast<std::size_t>(r)];
        CHECK(found.lost == 0);
        CHECK(found.clock.offset == 10'000);
        CHECK(found.clock.error == 3 * r);
        REQUIRE(found.threads.size() == 1);
        CHECK(found.threads[0].name == "step");
        auto records = found.threads[0].records;
        for (std::size_t c = 0; c < observe::categories; ++c) {  // what is held at the beginning
            CHECK(records[c].event == Event::memory);
            CHECK(records[c].index == c);
        }
        records.erase(records.begin(), records.begin() + observe::categories);
        auto expected = of_rank(r, 100, static_cast<std::uint32_t>(14 + r));
        for (observe::Record& record : expected) {
            record.begin += 10'000;
            record.end += 10'000;
        }
        CHECK(records == expected);
    }
}

TEST_CASE("copied records are in the ledger as long as they are kept") {
    auto const& scratch = observe::ledger()[observe::Category::scratch].now;
    auto const  before  = scratch.load();
    {
        observe::Records records(1000);
        CHECK(scratch.load() == before + 1000 * sizeof(observe::Record));
        records.resize(1001);
        CHECK(scratch.load() == before + records.capacity() * sizeof(observe::Record));
    }
    CHECK(scratch.load() == before);
}

TEST_CASE("records that were overwritten before they were copied are counted") {
    auto const&                world = environment().world();
    observe::Timeline          own;
    observe::UseTimeline const use(own);
    report::Recorder           recorder;
    recorder.start();
    for (std::size_t i = 0; i < observe::Track::capacity + 50; ++i) observe::mark(Event::version, i);
    recorder.copy();
    report::Recording const all = recorder.gather(world, {});
    for (auto const& rank : all.ranks)
        CHECK(rank.lost + rank.threads[0].records.size() == observe::Track::capacity + 50 + observe::categories);
    if (world.rank() == 0) CHECK(all.ranks[0].lost >= 50);
}

}  // namespace recording_test
