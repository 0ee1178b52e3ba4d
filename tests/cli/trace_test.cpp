// --trace, --trace-steps and --report of real runs.

#include <cmath>
#include <map>
#include <set>

#include "../report/perfetto.hpp"
#include "program.hpp"

namespace trace_test {

using namespace lockstep::test;

Words const small{"--layers", "2",  "--heads",        "2",  "--dim",    "32", "--vocab",      "64",
                  "--seq",    "16", "--global-batch", "12", "--sample", "0",  "--eval-every", "0"};

using Names = std::map<int, std::map<std::string, int>>;  // how often each slice happens, by rank

Names names_of(std::map<Row, std::vector<Slice>> const& rows) {
    Names names;
    for (auto const& [row, slices] : rows)
        for (Slice const& slice : slices) ++names[row.first][slice.name];
    return names;
}

void check_refused(Words const& flags, Words const& parts) {
    Ended const ended = run(1, flags);
    INFO(ended.err);
    CHECK(ended.code == 2);
    for (std::string const& part : parts) CHECK_MESSAGE(ended.err.find(part) != std::string::npos, part);
}

TEST_CASE("a trace has every unit's forward and backward of the steps that were asked for, on all ranks") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(3000, 64)));
    for (auto const& [ranks, strategy] : std::vector<std::pair<int, char const*>>{
             {1, "single"}, {2, "replicated"}, {2, "sharded-optimizer"}, {3, "sharded"}, {3, "hybrid"}}) {
        std::string const way = std::to_string(ranks) + " " + strategy;
        CAPTURE(way);
        std::string const file = folder / "trace.json";
        run_well(ranks, small + Words{"--data", data, "--steps", "6", "--micro-batch", "2", "--strategy", strategy, "--trace", file,
                                      "--trace-steps", "3:4", "--threads", "1"});
        auto const  rows  = checked_trace(read_all(file));
        Names const names = names_of(rows);
        REQUIRE(names.size() == static_cast<std::size_t>(ranks));
        int const micro_steps = 12 / 2 / ranks;
        for (auto const& [rank, count] : names) {
            auto const at = rank;
            INFO("rank ", at);
            CHECK(count.count("step 2") == 0);
            CHECK(count.at("step 3") == 1);
            CHECK(count.at("step 4") == 1);
            CHECK(count.count("step 5") == 0);
            for (char const* unit : {"h.0", "h.1"}) {
                CHECK(count.at(std::string("forward ") + unit) == 2 * micro_steps);
                CHECK(count.at(std::string("backward ") + unit) == 2 * micro_steps);
            }
            CHECK(count.at("update") == 2);
            CHECK(count.at("publish") == 2);
            bool reductions = false, gathers = false;
            for (auto const& [name, times] : count) {
                reductions = reductions || name.starts_with("Reduction bucket");
                gathers    = gathers || name.starts_with("AllGather ");
            }
            CHECK(reductions == (ranks > 1));
            CHECK(gathers == (ranks > 1 && strategy != std::string("replicated")));
        }
        // One clock: every rank's step 4 overlaps that of every other, because no step can end before all have come.
        std::int64_t latest_begin = 0, earliest_end = INT64_MAX;
        for (auto const& [row, slices] : rows)
            for (Slice const& slice : slices)
                if (slice.name == "step 4") {
                    latest_begin = std::max(latest_begin, slice.begin);
                    earliest_end = std::min(earliest_end, slice.end);
                }
        CHECK(latest_begin < earliest_end);
    }
}

TEST_CASE("an evaluation between two steps is not recorded, and overwrites neither") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(100'000, 64))), file = folder / "trace.json";
    Words const       flags(small.begin(), small.end() - 2);
    run_well(2, flags + Words{"--eval-every", "1", "--val-fraction", "0.5", "--data", data, "--steps", "3", "--micro-batch", "2",
                              "--strategy", "sharded", "--trace", file, "--trace-steps", "1:3", "--threads", "1"});
    std::string const text  = read_all(file);
    Names const       names = names_of(checked_trace(text));
    REQUIRE(names.size() == 2);
    for (auto const& [rank, times] : names) {
        for (char const* what : {"step 1", "step 2", "step 3"}) CHECK_MESSAGE(times.count(what) == 1, what);
        for (char const* what : {"forward h.0", "forward h.1", "backward h.0", "backward h.1"})
            CHECK_MESSAGE(times.at(what) == 3 * 3, what);  // micro-steps
    }
    CHECK(count(text, "\"lost_records\": 0") == 2);
}

TEST_CASE("a report holds the run: its metrics, its ranks, its units") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(3000, 64)));
    std::string const page = folder / "report.html", metrics = folder / "metrics.jsonl";
    run_well(2, small + Words{"--data", data, "--steps", "5", "--strategy", "replicated", "--report", page, "--metrics", metrics,
                              "--threads", "1"});
    std::string const html  = read_all(page);
    std::string const open  = "<script type=\"application/json\" id=\"data\">";
    std::size_t const begin = html.find(open) + open.size();
    REQUIRE(begin > open.size());
    json const  found = json::parse(html.substr(begin, html.find("</script>", begin) - begin));
    Lines const lines = read_lines(metrics);
    auto const& m     = found.at("metrics");
    REQUIRE(m.at("loss").size() == 5);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        for (char const* key : {"step", "loss", "step_ms", "compute_ms", "late_peer_ms", "update_ms", "data_ms", "other_ms", "comm_ms"})
            CHECK_MESSAGE(m.at(key).at(i).get<double>() == lines[i].at(key).get<double>(), key);
        CHECK(m.at("parameters_ms").at(i).get<double>() + m.at("gradients_ms").at(i).get<double>() ==
              doctest::Approx(lines[i].at("exposed_comm_ms").get<double>()));
        CHECK(lines[i].at("comm_ms").get<double>() >= 0);
        CHECK(lines[i].at("comm_ms").get<double>() <= lines[i].at("step_ms").get<double>());
        CHECK(m.at("hidden_ms").at(i).get<double>() <= lines[i].at("comm_ms").get<double>() + 1e-9);
    }
    CHECK(found.at("ranks").size() == 2);
    CHECK(found.at("world") == 2);
    CHECK(found.at("units").size() == 3);
    CHECK(!found.at("collectives").empty());
}

TEST_CASE("flags that cannot be used are refused before anything is written") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(3000, 64)));
    Words const       base = small + Words{"--data", data, "--steps", "2"};
    std::string const file = folder / "t.json";
    for (char const* wrong : {"3", "0:2", "2:1", ":2", "1:", "a:b", "1:2:3", "-1:2", "1:99999999999"})
        check_refused(base + Words{"--trace", file, "--trace-steps", wrong}, {"--trace-steps", "A:B", wrong});
    check_refused(base + Words{"--trace", file, "--trace-steps", "3:4"}, {"--trace-steps", "--steps 2", "found 3"});
    check_refused(base + Words{"--trace-steps", "1:2"}, {"--trace-steps", "--trace or --report"});
    check_refused(base + Words{"--trace", data}, {"--trace", "data.bin", "--data"});
    check_refused(base + Words{"--trace", file, "--report", file}, {"--report", "t.json", "--trace"});
    check_refused(base + Words{"--report", folder / "none/r.html"}, {"none/r.html"});
    CHECK(!std::filesystem::exists(file));
}

}  // namespace trace_test
