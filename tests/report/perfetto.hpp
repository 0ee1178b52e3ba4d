#pragma once
// Holds a trace to what Perfetto's importer asks of one.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep::test {

using nlohmann::json;

using Row = std::pair<int, int>;

inline Row row_of(json const& event) { return {event.at("pid").get<int>(), event.at("tid").get<int>()}; }

/// Microseconds with three decimals, as nanoseconds.
inline std::int64_t ns(json const& value) { return std::llround(value.get<double>() * 1000); }

struct Slice {
    std::int64_t begin, end;
    std::string  name;
};

/// Slices by row; checks required fields, nesting, arrows and counters on the way.
inline std::map<Row, std::vector<Slice>> checked_trace(std::string const& text) {
    REQUIRE(text.substr(0, 2) == "{\"");  // how Perfetto knows the format
    json const trace = json::parse(text);
    CHECK(trace.at("displayTimeUnit") == "ms");
    CHECK(text.find("\"rank\": ") < text.find("traceEvents"));
    std::map<Row, std::vector<Slice>>                         rows;
    std::map<std::tuple<int, std::string, std::string>, json> starts;
    std::set<std::tuple<int, std::string, std::string>>       ended;
    std::set<int>                                             named;
    for (json const& event : trace.at("traceEvents")) {
        INFO(event.dump());
        std::string const phase = event.at("ph");
        CHECK(std::string("MXiCstf").find(phase) != std::string::npos);
        CHECK(!event.at("name").get<std::string>().empty());
        CHECK(event.at("pid").is_number_unsigned());
        CHECK(event.at("tid").is_number_unsigned());
        if (phase == "M") {
            if (event.at("name") == "process_name") named.insert(event.at("pid").get<int>());
            continue;
        }
        CHECK(event.at("ts").get<double>() >= 0);
        CHECK(!event.at("cat").get<std::string>().empty());
        if (event.at("pid") != 0) CHECK(event.at("tid") != 0);  // else Perfetto takes the process for the thread
        if (phase == "X") {
            CHECK(event.at("dur").get<double>() >= 0);
            rows[row_of(event)].push_back({ns(event.at("ts")), ns(event.at("ts")) + ns(event.at("dur")), event.at("name")});
        } else if (phase == "i") {
            CHECK(event.at("s") == "t");
        } else if (phase == "C") {
            for (auto const& arg : event.at("args").items()) CHECK_MESSAGE(arg.value().is_number(), arg.key());
        } else {
            std::tuple<int, std::string, std::string> const id{event.at("id"), event.at("cat"), event.at("name")};
            if (phase == "s") {
                CHECK(starts.emplace(id, event).second);  // one start each
            } else {
                REQUIRE(starts.count(id) == 1);
                CHECK(ns(event.at("ts")) >= ns(starts.at(id).at("ts")));
            }
            if (phase == "f") {
                CHECK(event.at("bp") == "e");
                CHECK(ended.insert(id).second);
            }
            bool inside = false;  // of a slice that was written before, not on its edge
            for (Slice const& slice : rows[row_of(event)])
                inside = inside || (slice.begin < ns(event.at("ts")) && ns(event.at("ts")) < slice.end);
            CHECK(inside);
        }
    }
    CHECK(ended.size() == starts.size());
    for (auto& [row, slices] : rows) {
        CHECK(named.count(row.first) == 1);
        std::stable_sort(slices.begin(), slices.end(),
                         [](auto const& a, auto const& b) { return std::tuple(a.begin, -a.end) < std::tuple(b.begin, -b.end); });
        std::vector<std::int64_t> open;
        for (Slice const& slice : slices) {
            while (!open.empty() && open.back() <= slice.begin) open.pop_back();
            if (!open.empty()) CHECK_MESSAGE(slice.end <= open.back(), slice.name);
            open.push_back(slice.end);
        }
    }
    return rows;
}

}  // namespace lockstep::test
