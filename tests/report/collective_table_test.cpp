#include "lockstep/report/collective_table.hpp"

#include <doctest/doctest.h>

#include "recorded.hpp"

namespace collective_table_test {

using namespace lockstep;
using report::CollectiveRow;

TEST_CASE("a collective is on the wire once the last rank has come, and hidden where nobody waits") {
    auto const recording = test::recorded();
    auto const table     = report::collective_table(recording, 0);
    REQUIRE(table.size() == 3);
    CollectiveRow const gather = table[0], reduction = table[1], sum = table[2];
    CHECK(gather.name == "AllGather h.0 \"<&>\"");
    CHECK(gather.count == 1);
    CHECK(gather.bytes == 2'700'000);
    CHECK(gather.wire_ms == doctest::Approx(0.027));
    CHECK(gather.exposed_ms == doctest::Approx(0.027));
    CHECK(gather.late_ms == doctest::Approx(0.002));  // from the wait's begin to the transfer's
    CHECK(gather.hidden == doctest::Approx(0));

    CHECK(reduction.name == "Reduction bucket 0");  // rank 0 comes at 302 us, rank 1 at 402, it ends at 500; rank 0 waits from 360
    CHECK(reduction.wire_ms == doctest::Approx(0.098));
    CHECK(reduction.late_ms == doctest::Approx(0.042));
    CHECK(reduction.exposed_ms == doctest::Approx(0.098));
    CollectiveRow const slow = report::collective_table(recording, 1)[2];  // rank 1 starts it at 404, behind the sum, and waits from 460
    CHECK(slow.wire_ms == doctest::Approx(0.096));
    CHECK(slow.late_ms == 0);
    CHECK(slow.exposed_ms == doctest::Approx(0.040));
    CHECK(*slow.hidden == doctest::Approx(1 - 0.040 / 0.096));

    CHECK(sum.name == "Sum");  // from 320 to 510 us: nobody waits for it, but from 360 to 501 the thread waits for the reduction
    CHECK(sum.exposed_ms == doctest::Approx(0.141));
    CHECK(*sum.hidden == doctest::Approx(1 - 0.141 / 0.190));
}

TEST_CASE("a transfer is hidden only while the thread waits for no collective at all") {
    using observe::Event;
    constexpr observe::Nanoseconds us = 1000;

    report::Recording::Thread step{"step", {}}, communication{"communication", {}};
    auto const                wait = [&](Event event, std::uint32_t index, observe::Nanoseconds from, observe::Nanoseconds to) {
        step.records.push_back({event, 0, index, from * us, to * us, 0});
    };
    // Both reductions are on the wire when the thread waits for the first; it works from 300 to 350, and finds the second done at 500.
    wait(Event::reduction_wait, 0, 200, 300);
    wait(Event::sum_wait, 0, 350, 380);
    wait(Event::gather_wait, 1, 360, 420);  // overlaps the sum's: counted once
    wait(Event::reduction_wait, 1, 500, 500);
    step.records.push_back({Event::step, 0, 1, 0, 600 * us, 0});
    communication.records.push_back({Event::reduction, 0, 0, 100 * us, 290 * us, 8});
    communication.records.push_back({Event::reduction, 0, 1, 150 * us, 400 * us, 8});
    auto const table = report::collective_table(report::Recording{{}, {{{step, communication}, {}, 0}}}, 0);
    REQUIRE(table.size() == 2);
    CHECK(table[0].exposed_ms == doctest::Approx(0.090));
    CHECK(table[1].wire_ms == doctest::Approx(0.250));
    CHECK(table[1].exposed_ms == doctest::Approx(0.100 + 0.050));
    CHECK(table[1].late_ms == 0);
    CHECK(*table[1].hidden == doctest::Approx(1 - 0.150 / 0.250));
}

TEST_CASE("weights that a group gathers do not wait for the ranks of another one") {
    auto recording = test::recorded();
    for (observe::Record& r : recording.ranks[1].threads[1].records)
        if (r.event == observe::Event::gather_issued) r.begin = r.end = r.begin + 20'000;
    CHECK(report::collective_table(recording, 0)[0].wire_ms < 0.026);
    recording.gathered_among = 1;
    CHECK(report::collective_table(recording, 0)[0].wire_ms == doctest::Approx(0.027));
}

TEST_CASE("ranks whose records do not match are taken one by one") {
    auto  recording = test::recorded();
    auto& step      = recording.ranks[1].threads[1].records;
    step.erase(std::find_if(step.begin(), step.end(), [](auto const& r) { return r.event == observe::Event::reduction_issued; }));
    CHECK(report::collective_table(recording, 0)[1].wire_ms == doctest::Approx(0.196));
    CHECK(report::collective_table(report::Recording{{}, {{}}}, 0).empty());
}

}  // namespace collective_table_test
