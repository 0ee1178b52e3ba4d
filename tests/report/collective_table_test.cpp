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

    CHECK(sum.name == "Sum");
    CHECK(sum.exposed_ms == 0);
    CHECK(sum.hidden == doctest::Approx(1));
}

TEST_CASE("ranks whose records do not match are taken one by one") {
    auto  recording = test::recorded();
    auto& step      = recording.ranks[1].threads[1].records;
    step.erase(std::find_if(step.begin(), step.end(), [](auto const& r) { return r.event == observe::Event::reduction_issued; }));
    CHECK(report::collective_table(recording, 0)[1].wire_ms == doctest::Approx(0.196));
    CHECK(report::collective_table(report::Recording{{}, {{}}}, 0).empty());
}

}  // namespace collective_table_test
