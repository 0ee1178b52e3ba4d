// A rank of a run that stops or dies: the job ends in time, says who and where, and leaves what each rank did last.

#include "checkpointing.hpp"

namespace faults_test {

using namespace lockstep::test;
namespace fs = std::filesystem;

/// Of a run that is in the middle of its steps: seconds from the signal to the end.
double strike(Background& job, CheckpointPlace const& place, int number) {
    REQUIRE(job.wait([&] { return count(read_all(place.metrics), "\n") >= 5; }));
    auto const begin = std::chrono::steady_clock::now();
    job.signal(1, number);
    job.end();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST_CASE("a rank that is stopped: the others report within the timeout and leave their last events beside the metrics") {
    for (char const* strategy : {"replicated", "sharded", "sharded-optimizer"}) {
        CheckpointPlace const place;
        Background            job(place.folder, 3,
                                  place.steps(1'000'000) + Words{"--strategy", strategy, "--timeout", "3", "--metrics", place.metrics});
        double const          seconds = strike(job, place, SIGSTOP);
        Ended const&          ended   = job.end();
        CAPTURE(strategy);
        CAPTURE(ended.err);
        CHECK(ended.code == 3);
        CHECK(seconds < 3 + 5);
        CHECK(count(ended.err, ": waited 3 s for ") >= 1);
        CHECK(count(ended.err, "\n    rank 1: ") >= 1);  // in the reports of those that have come to it
        CHECK(count(ended.err, "silent for ") >= 1);
        for (char const* rank : {"0", "2"}) {
            Lines const events = read_lines(place.metrics + ".rank" + rank + ".events.jsonl");
            REQUIRE(events.size() > 100);
            double last = events.front().at("begin_us").get<double>();
            for (auto const& event : events)
                if (!event.at("end_us").is_null()) {
                    CHECK(event.at("end_us").get<double>() >= last);
                    last = event.at("end_us").get<double>();
                }
            CHECK(count(read_all(place.metrics + ".rank" + rank + ".events.jsonl"), "\"backward\"") > 0);
        }
        CHECK_FALSE(fs::exists(place.metrics + ".rank1.events.jsonl"));
    }
}

TEST_CASE("a rank that is killed: the launcher ends the job at once") {
    CheckpointPlace const place;
    Background            job(place.folder, 3, place.steps(1'000'000) + Words{"--strategy", "sharded", "--metrics", place.metrics});
    CHECK(strike(job, place, SIGKILL) < 5);
    CHECK(job.end().code != 0);
}

TEST_CASE("a stopped rank that goes on in time is waited for") {
    CheckpointPlace const place;
    Background            job(place.folder, 2, place.steps(60) + Words{"--timeout", "20", "--metrics", place.metrics});
    REQUIRE(job.wait([&] { return count(read_all(place.metrics), "\n") >= 5; }));
    job.signal(1, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::seconds(2));
    job.signal(1, SIGCONT);
    CHECK(job.end().code == 0);
    CHECK(read_lines(place.metrics).size() == 60);
    CHECK_FALSE(fs::exists(place.metrics + ".rank0.events.jsonl"));
}

}  // namespace faults_test
