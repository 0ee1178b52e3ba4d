// A rank of a run that stops or dies: the job ends in time, says who and where, and leaves what each rank did last.

#include <fcntl.h>
#include <unistd.h>

#include <sstream>

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

TEST_CASE("a rank that never comes to MPI: the others wait for it as long as the timeout says") {
    CheckpointPlace const place;
    auto const            begin = std::chrono::steady_clock::now();
    Ended const           ended = run_command(
                  Words{LOCKSTEP_MPIEXEC, "-n", "1", LOCKSTEP_TRAIN_GPT} + place.steps(3) + Words{"--timeout", "3", ":", "-n", "1", "sleep", "60"},
                  40);
    CAPTURE(ended.err);
    CHECK(ended.code == 3);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(3 + 5));
    CHECK(count(ended.err, "rank 0: waited 4 s for MPI_Init_thread, which another rank has not joined or not ended\n") == 1);
}

/// Flips a bit of each copy of some bytes that a process may write. Returns how many there were.
std::size_t flip_bit(pid_t process, std::string const& bytes) {
    std::string const  proc = "/proc/" + std::to_string(process);
    std::istringstream maps(read_all(proc + "/maps"));
    int const          memory = ::open((proc + "/mem").c_str(), O_RDWR);
    std::size_t        found  = 0;
    std::vector<char>  held;
    for (std::string line; memory >= 0 && std::getline(maps, line);) {  // "BEGIN-END rw-p ..."
        std::size_t       dash  = 0;
        std::size_t const begin = std::stoull(line, &dash, 16), end = std::stoull(line.substr(dash + 1), nullptr, 16);
        if (line.find(" rw-p ") == line.npos || end - begin > std::size_t{1} << 30) continue;
        held.resize(end - begin);
        ssize_t const read = ::pread(memory, held.data(), held.size(), static_cast<off_t>(begin));
        if (read <= 0) continue;
        std::string_view const all(held.data(), static_cast<std::size_t>(read));
        for (std::size_t at = all.find(bytes); at != all.npos; at = all.find(bytes, at + 1)) {
            char const flipped = static_cast<char>(bytes[0] ^ 1);
            found += ::pwrite(memory, &flipped, 1, static_cast<off_t>(begin + at)) == 1;
        }
    }
    if (memory >= 0) ::close(memory);
    return found;
}

TEST_CASE("a bit that flips in the memory of one rank is found at the next comparison of the replicas") {
    for (char const* precision : {"fp32", "bf16"}) {
        CheckpointPlace place;
        place.flags.back() = "0";  // --lr: weights that stay as they are
        Words const still{"--precision", precision};
        run_well(2, place.steps(1) + still + Words{"--export", place.out});
        std::string const embedding = Tensors(place.out + "/model.safetensors").data("transformer.wte.weight");

        Background job(place.folder, 2, place.steps(1'000'000) + still + Words{"--check-replicas-every", "3", "--metrics", place.metrics});
        REQUIRE(job.wait([&] { return count(read_all(place.metrics), "\n") >= 5; }));
        REQUIRE(flip_bit(job.process_of(1), embedding.substr(0, 128)) > 0);
        Ended const& ended = job.end();
        CAPTURE(std::string(precision));
        CHECK_MESSAGE(ended.code == 3, ended.err);
        CHECK_MESSAGE(ended.err == "the ranks do not hold the same checksum of the parameters: rank 1 differs from rank 0\n", ended.err);
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
    for (char const* rank : {".rank1", ".rank2", ".rank3"}) std::ofstream(place.metrics + rank + ".events.jsonl") << "why it ended\n";
    CHECK(run(2, place.steps(2) + Words{"--metrics", place.metrics, "--resume", place.folder / "absent"}).code == 2);
    CHECK(read_all(place.metrics + ".rank1.events.jsonl") == "why it ended\n");  // nothing was begun
    run_well(2, place.steps(2) + Words{"--metrics", place.metrics});
    CHECK_FALSE(fs::exists(place.metrics + ".rank1.events.jsonl"));
    CHECK(read_all(place.metrics + ".rank1.events.jsonl.old") == "why it ended\n");
    for (char const* rank : {".rank2", ".rank3"}) {  // there are fewer ranks now
        CHECK_FALSE(fs::exists(place.metrics + rank + ".events.jsonl"));
        CHECK(fs::exists(place.metrics + rank + ".events.jsonl.old"));
    }
}

}  // namespace faults_test
