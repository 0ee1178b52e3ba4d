#include "lockstep/report/trace.hpp"

#include <doctest/doctest.h>

#include "perfetto.hpp"
#include "recorded.hpp"

namespace trace_test {

using namespace lockstep;
using test::checked_trace;
using test::json;
using test::Slice;

TEST_CASE("a trace of two ranks keeps Perfetto's rules and has both ranks on one clock") {
    std::string const text  = report::TraceWriter(test::recorded()).text();
    auto const        rows  = checked_trace(text);
    json const        trace = json::parse(text);
    CHECK(trace.at("baseTimeNanoseconds").get<std::int64_t>() == test::epoch + 1000);

    std::map<int, std::set<std::string>> names;
    for (auto const& [row, slices] : rows)
        for (Slice const& slice : slices) names[row.first].insert(slice.name);
    REQUIRE(names.size() == 2);
    CHECK(names[0] == names[1]);
    for (char const* name : {"step 1", "step 2", "forward h.0 \"<&>\"", "backward h.0 \"<&>\"", "AllGather h.0 \"<&>\"",
                             "Reduction bucket 0", "Reduction wait bucket 0", "update", "Sum"})
        CHECK_MESSAGE(names[0].count(name) == 1, name);
    // The same moments of the shared clock are the same in the file.
    for (std::string const name : {"step 1", "Sum"}) {
        std::set<std::int64_t> begins;
        for (auto const& [row, slices] : rows)
            for (Slice const& slice : slices)
                if (slice.name == name) begins.insert(slice.begin % 1'000'000);
        CHECK_MESSAGE(begins.size() == 1, name);
    }
}

TEST_CASE("arrows lead from a gradient's readiness to its reduction and to the wait") {
    json const                              trace = json::parse(report::TraceWriter(test::recorded()).text());
    std::map<int, std::vector<std::string>> chains;
    std::map<int, std::vector<double>>      times;
    for (json const& event : trace.at("traceEvents")) {
        std::string const phase = event.at("ph");
        if (phase != "s" && phase != "t" && phase != "f") continue;
        chains[event.at("id")].push_back(phase);
        times[event.at("id")].push_back(event.at("ts"));
    }
    CHECK(chains.size() == 8);  // two steps of two ranks, a gather and a reduction each; sums have no issue here
    for (auto const& [id, chain] : chains) CHECK(chain == std::vector<std::string>{"s", "t", "f"});
    bool ready = false;
    for (auto const& [id, when] : times) ready = ready || std::abs(when[0] - 299) < 1e-6;  // ready at 300 us, the base is at 1
    CHECK(ready);
}

TEST_CASE("transfers that overlap lie in rows of their own") {
    auto const         rows = checked_trace(report::TraceWriter(test::recorded()).text());
    std::map<int, int> wires;
    for (auto const& [row, slices] : rows)
        if (row.second >= 1000) ++wires[row.first];
    CHECK(wires == std::map<int, int>{{0, 2}, {1, 2}});
}

TEST_CASE("memory is a counter with a value for each category") {
    json const trace = json::parse(report::TraceWriter(test::recorded()).text());
    int        seen  = 0;
    for (json const& event : trace.at("traceEvents"))
        if (event.at("ph") == "C" && event.at("name") == "memory") {
            CHECK(event.at("args").size() == observe::categories);
            seen += event.at("args").at("params") == 1000 && event.at("args").at("activations") == 4096;
        }
    CHECK(seen >= 2);
}

TEST_CASE("an empty recording is a trace without slices") {
    report::Recording none;
    CHECK(checked_trace(report::TraceWriter(none).text()).empty());
    none.ranks.resize(2);
    CHECK(checked_trace(report::TraceWriter(none).text()).empty());
}

}  // namespace trace_test
