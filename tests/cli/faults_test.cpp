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

TEST_CASE("a rank that falls silent before the first step: the timeout holds from the start") {
    CheckpointPlace const place;
    auto const            begin = std::chrono::steady_clock::now();
    Ended const           ended = run_command(Words{LOCKSTEP_MPIEXEC, "-n", "1", LOCKSTEP_TRAIN_GPT} + place.steps(3) +
                                                  Words{"--timeout", "3", ":", "-n", "1", LOCKSTEP_SILENT_RANK},
                                              40);
    CAPTURE(ended.err);
    CHECK(ended.code == 3);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(3 + 5));
    CHECK(count(ended.err, "rank 0: waited 3 s for ") == 1);
    CHECK(count(ended.err, "\n    rank 1: ") == 1);
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

TEST_CASE("a job that is suspended as a whole for longer than the timeout goes on") {
    for (char const* progress : {"thread", "inside"}) {
        CheckpointPlace const place;
        Background job(place.folder, 2, place.steps(60) + Words{"--timeout", "2", "--progress", progress, "--metrics", place.metrics});
        REQUIRE(job.wait([&] { return count(read_all(place.metrics), "\n") >= 5; }));
        for (int const number : {SIGSTOP, SIGCONT}) {
            for (int rank = 0; rank < 2; ++rank) job.signal(rank, number);
            if (number == SIGSTOP) std::this_thread::sleep_for(std::chrono::seconds(4));
        }
        CHECK_MESSAGE(job.end().code == 0, job.end().err);
        CHECK(read_lines(place.metrics).size() == 60);
    }
}

TEST_CASE("what a rank did last before an earlier end is kept when the run is started again") {
    CheckpointPlace const place;
    std::ofstream(place.metrics + ".rank1.events.jsonl") << "why it ended\n";
    run_well(2, place.steps(2) + Words{"--metrics", place.metrics});
    CHECK_FALSE(fs::exists(place.metrics + ".rank1.events.jsonl"));
    CHECK(read_all(place.metrics + ".rank1.events.jsonl.old") == "why it ended\n");
}

}  // namespace faults_test
