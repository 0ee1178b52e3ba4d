// How runs end that were on their way: weights that are no numbers, files that cannot be written or are changed, output that nobody reads.

#include <sys/resource.h>

#include "program.hpp"

namespace endings_test {

using namespace lockstep::test;
namespace fs = std::filesystem;

struct Place {
    Folder      folder;
    std::string data = folder.write("data.bin", shard(some_tokens(2000, 64)));
    Words small = {"--layers", "2", "--heads", "2", "--dim", "32", "--vocab", "64", "--seq", "16", "--global-batch", "12", "--sample", "0"};
    Words right = small + Words{"--data", data};
};

void check_one_line(Ended const& ended, int code, Words const& says) {
    INFO(ended.err);
    CHECK(ended.code == code);
    CHECK(count(ended.err, "\n") == 1);
    for (std::string const& words : says) CHECK_MESSAGE(count(ended.err, words) != 0, "must say: ", words);
}

/// A limit of this process and of those that it starts.
class Limit {
public:
    Limit(int resource, rlim_t value) : resource_(resource) {
        REQUIRE(::getrlimit(static_cast<__rlimit_resource>(resource_), &before_) == 0);
        rlimit now   = before_;
        now.rlim_cur = value;
        REQUIRE(::setrlimit(static_cast<__rlimit_resource>(resource_), &now) == 0);
    }
    ~Limit() { ::setrlimit(static_cast<__rlimit_resource>(resource_), &before_); }

private:
    int    resource_;
    rlimit before_{};
};

TEST_CASE("weights that are no longer finite end the run with exit code 4, without sample and export") {
    Place const       place;
    std::string const text = place.folder.write("text.txt", std::string(3000, 'x'));
    Words const       flags{"--data", text, "--layers",       "2",  "--heads", "2", "--dim", "32",
                      "--seq",  "16", "--global-batch", "12", "--steps", "1"};
    for (auto const& [ranks, strategy] : std::vector<std::pair<int, char const*>>{{1, "single"}, {2, "replicated"}, {2, "sharded"}}) {
        Words const all   = flags + Words{"--strategy", strategy, "--precision", "fp32", "--export", place.folder / "out", "--lr"};
        Ended const ended = run(ranks, all + Words{"3e38"});
        check_one_line(ended, 4, {"weights: expected finite numbers, found others in ", "at version 1"});
        CHECK_FALSE(fs::exists(place.folder / "out"));
        CHECK(count(ended.out, "\nsample\n") == 0);
        CHECK(count(run_well(ranks, all + Words{"1e-3"}).out, "\nsample\n") == 1);  // else it does both
        CHECK(fs::exists(place.folder / "out/model.safetensors"));
        fs::remove_all(place.folder / "out");
    }
}

TEST_CASE("a run whose steps are skipped gives up after as many as --max-skips says") {
    Place const place;
    for (int const ranks : {1, 2}) {
        Words const flags = place.right + Words{"--precision", "fp32", "--lr", "3e38", "--steps", "9", "--metrics", place.folder / "log"};
        Ended const ended = run(ranks, flags + Words{"--max-skips", "3"});
        check_one_line(ended, 4,
                       {"3 steps in a row were skipped at version 1: non-finite loss or gradient", "first seen in the loss of rank 0"});
        std::string applied;
        for (auto const& line : read_lines(place.folder / "log")) applied += line.at("applied").get<bool>() ? '1' : '0';
        CHECK(applied == "1000");
        check_one_line(run(ranks, flags + Words{"--max-skips", "0"}), 2, {"--max-skips", "found 0"});
    }
    Words const often = place.right + Words{"--steps", "3", "--check-replicas-every", "1"};
    run_well(2, often);
    check_one_line(run(1, place.right + Words{"--check-replicas-every", "x"}), 2, {"--check-replicas-every", "x"});
}

TEST_CASE("weights that do not fit on the disk at the end are one line and leave nothing") {
    Place const place;
    Limit const limit(RLIMIT_FSIZE, rlim_t{16} << 20);  // MPI itself makes files of some MiB
    for (auto const& [ranks, strategy] : std::vector<std::pair<int, char const*>>{{1, "single"}, {2, "replicated"}, {2, "sharded"}}) {
        Ended const ended =
            run(ranks, {"--data", place.data, "--layers", "2", "--heads",    "2",      "--dim",   "512", "--vocab",  "64",
                        "--seq",  "16",       "--sample", "0", "--strategy", strategy, "--steps", "0",   "--export", place.folder / "out"});
        check_one_line(ended, 2, {"out/model.safetensors: writing failed: File too large"});
        CHECK_FALSE(fs::exists(place.folder / "out"));
        CHECK(ended.seconds < 20);
    }
}

TEST_CASE("metrics that can no longer be written end the run with one line") {
    Place const place;
    for (int const ranks : {1, 2})
        check_one_line(run(ranks, place.right + Words{"--steps", "3", "--metrics", "/dev/full"}), 2,
                       {"/dev/full", "step 1 cannot be written: No space left on device"});
}

TEST_CASE("memory that a process may not have is named before anything is made") {
    Place const place;
    Limit const limit(RLIMIT_AS, rlim_t{3} << 30);
    for (int const ranks : {1, 2})
        check_one_line(run(ranks, {"--data", place.data, "--layers", "6", "--heads", "8", "--dim", "2048", "--vocab", "64", "--seq", "16",
                                   "--global-batch", "12"}),
                       2, {"--dim", "fits into the ", "ulimit -v", "found a need of at least 4.5"});
}

TEST_CASE("training data that somebody cuts during the run end it with one line that names the file") {
    Place const       place;
    std::string const data = place.folder.write("cut.bin", shard(some_tokens(60'000, 64)));
    for (int const ranks : {1, 2}) {
        fs::resize_file(data, 1024 + 120'000);
        std::thread cutter([&] {
            while (!fs::exists(place.folder / "m.jsonl") || fs::file_size(place.folder / "m.jsonl") == 0)
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            fs::resize_file(data, 2000);
        });
        Ended const ended = run(
            ranks, place.small + Words{"--data", data, "--steps", "1000000", "--eval-every", "0", "--metrics", place.folder / "m.jsonl"});
        cutter.join();
        check_one_line(ended, 2, {"data file", "cut.bin", "expected 121024 bytes as when it was opened, found 2000"});
        fs::remove(place.folder / "m.jsonl");
    }
}

TEST_CASE("a run goes on where its output cannot be written, and says so unless its reader has left") {
    Place const       place;
    std::string const command =
        std::string(LOCKSTEP_TRAIN_GPT) + " " + joined(place.right) + " --steps 60 --metrics " + (place.folder / "m.jsonl");
    Ended const full = run_command({"/bin/sh", "-c", command + " >/dev/full"});
    check_one_line(full, 0, {"standard output: cannot be written"});
    CHECK(read_lines(place.folder / "m.jsonl").size() == 60);
    fs::remove(place.folder / "m.jsonl");
    Ended const left = run_command({"/bin/bash", "-c", "set -o pipefail; " + command + " | head -1"});
    CHECK(left.code == 0);
    CHECK(left.err.empty());
    CHECK(count(left.out, "\n") == 1);
    CHECK(read_lines(place.folder / "m.jsonl").size() == 60);
}

}  // namespace endings_test
