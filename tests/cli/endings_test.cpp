// How runs end that were on their way: weights that are no numbers, files that cannot be written or are changed, output that nobody reads.

#include <sys/resource.h>

#include "checkpointing.hpp"

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

TEST_CASE("metrics, a trace or a report that can no longer be written cost themselves and the exit code: the run goes on") {
    Place const       place;
    std::string const out = place.folder / "out";
    for (int const ranks : {1, 2}) {
        Words const flags = place.right + Words{"--steps", "60", "--export", out, "--save", place.folder / "saved"};
        auto const  left  = [&] {
            CHECK(newest(place.folder / "saved") == place.folder / "saved/step-0000000060");
            std::string const weights = read_all(out + "/model.safetensors");
            fs::remove_all(out), fs::remove_all(place.folder / "saved");
            return weights;
        };
        run_well(ranks, flags);
        std::string const weights = left();
        check_one_line(run(ranks, flags + Words{"--metrics", "/dev/full"}), 2,
                       {"/dev/full", "step 1 cannot be written: No space left on device", "; the run goes on without it"});
        CHECK(left() == weights);
        for (char const* flag : {"--trace", "--report"}) {
            fs::create_directory(place.folder / "gone");
            std::string const metrics = place.folder / "m.jsonl";
            std::atomic<bool> over{false};
            std::thread       remover([&] {
                while (!over && (!fs::exists(metrics) || fs::file_size(metrics) == 0))
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                fs::remove_all(place.folder / "gone");
            });
            Ended const       ended = run(ranks, flags + Words{flag, place.folder / "gone/it", "--metrics", metrics});
            over                    = true;
            remover.join();
            check_one_line(ended, 2, {"gone/it: cannot be created: No such file or directory; the run goes on without it"});
            CHECK(left() == weights);
            CHECK(read_lines(metrics).size() == 60);
            fs::remove(metrics);
        }
    }
}

#if !defined(__SANITIZE_ADDRESS__)  // which needs terabytes of addresses
TEST_CASE("memory that a process may not have is named before anything is made") {
    Place const place;
    Limit const limit(RLIMIT_AS, rlim_t{3} << 30);
    for (int const ranks : {1, 2})
        check_one_line(run(ranks, {"--data", place.data, "--layers", "6", "--heads", "8", "--dim", "2048", "--vocab", "64", "--seq", "16",
                                   "--global-batch", "12"}),
                       2, {"--dim", "fits into the ", "ulimit -v", "found a need of at least 4.5"});
}
#endif

TEST_CASE("training data that somebody cuts during the run end it with one line that names the file") {
    Place const       place;
    std::string const data = place.folder.write("cut.bin", shard(some_tokens(60'000, 64)));
    for (int const ranks : {1, 2}) {
        fs::resize_file(data, 1024 + 120'000);
        std::atomic<bool> over{false};
        std::thread       cutter([&] {
            while (!over && (!fs::exists(place.folder / "m.jsonl") || fs::file_size(place.folder / "m.jsonl") == 0))
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            fs::resize_file(data, 2000);
        });
        Ended const       ended = run(
                  ranks, place.small + Words{"--data", data, "--steps", "1000000", "--eval-every", "0", "--metrics", place.folder / "m.jsonl"});
        over = true;
        cutter.join();
        check_one_line(ended, 2, {"data file", "cut.bin", "expected 121024 bytes as when it was opened, found 2000"});
        fs::remove(place.folder / "m.jsonl");
    }
}

TEST_CASE("training data that somebody overwrites with ids that are no tokens of the model end the run saved, named by file") {
    Place const       place;
    std::string const saved = place.folder / "saved", metrics = place.folder / "m.jsonl";
    for (auto const& [ranks, every] : {std::pair{1, "0"}, {2, "0"}, {2, "1"}}) {
        std::string const data = place.folder.write("changed.bin", shard(some_tokens(60'000, 64)));
        std::atomic<bool> over{false};
        std::thread       writer([&] {
            while (!over && (!fs::exists(metrics) || fs::file_size(metrics) == 0))
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            std::fstream file(data, std::ios::in | std::ios::out | std::ios::binary);
            file.seekp(1024) << std::string(120'000, '\x7f');
        });
        Ended const       ended = run(
                  ranks, place.small + Words{"--data", data, "--steps", "1000000", "--eval-every", every, "--save", saved, "--metrics", metrics});
        over = true;
        writer.join();
        check_one_line(ended, 2, {"changed.bin: expected ids below the vocabulary of 64, found 32639 at position "});
        CHECK(fs::exists(saved + "/latest"));
        fs::remove_all(saved), fs::remove(metrics);
    }
}

TEST_CASE("an error that all ranks see leaves its position saved, unless the weights are no numbers") {
    Place const       place;
    std::string const saved = place.folder / "saved", metrics = place.folder / "m.jsonl";
    Words const       save{"--save", saved, "--metrics", metrics};
    auto const        position = [&] { return nlohmann::json::parse(read_all(newest(saved) + "/index.json")).at("position"); };
    auto const        clear    = [&] { fs::remove_all(saved), fs::remove(metrics); };

    std::string const data = place.folder.write("cut.bin", shard(some_tokens(60'000, 64)));
    for (int const ranks : {1, 2})
        for (char const* every : {"0", "1"}) {  // the held-out tokens are the last
            fs::resize_file(data, 1024 + 120'000);
            std::atomic<bool> over{false};
            std::thread       cutter([&] {
                while (!over && (!fs::exists(metrics) || fs::file_size(metrics) == 0))
                    std::this_thread::sleep_for(std::chrono::milliseconds(5));
                fs::resize_file(data, 2000);
            });
            Ended const       ended = run(ranks, place.small + save + Words{"--data", data, "--steps", "1000000", "--eval-every", every});
            over                    = true;
            cutter.join();
            check_one_line(ended, 2, {"cut.bin", "expected 121024 bytes as when it was opened, found 2000"});
            std::size_t const told = read_lines(metrics).size(), used = position().at("next_sample").get<std::size_t>() / 12;
            CHECK(used >= told);
            CHECK(used <= told + 1);
            CHECK(newest(saved).ends_with("00" + std::to_string(used)));
            clear();
        }

    // three batches of words, and then none that counts
    std::vector<std::int32_t> ids = some_tokens(3 * 192 + 1, 60);
    ids.resize(3000, 63);
    std::string const silent = place.folder.write("silent.bin", shard(ids));
    Words const       quiet  = place.small + save + Words{"--data", silent, "--order", "sequential", "--ignore-label", "63"};
    for (int const ranks : {1, 2}) {
        check_one_line(run(ranks, quiet + Words{"--steps", "9", "--max-skips", "3"}), 4, {"3 steps in a row were skipped at version 3"});
        CHECK(newest(saved) == saved + "/step-0000000003");
        CHECK(position() == nlohmann::json{{"next_sample", 6 * 12}, {"skipped_in_a_row", 3}, {"evaluation_due", false}});
        Words const on{"--steps", "9", "--max-skips", "5", "--resume", saved};  // two more
        check_one_line(run(ranks, quiet + on), 4, {"5 steps in a row were skipped at version 3"});
        CHECK(position() == nlohmann::json{{"next_sample", 8 * 12}, {"skipped_in_a_row", 5}, {"evaluation_due", false}});
        clear();
    }

    std::string const text = place.folder.write("text.txt", std::string(3000, 'x'));
    Words const wild{"--data",      text,   "--layers", "2", "--heads", "2",   "--dim",        "32", "--seq",  "16", "--global-batch", "12",
                     "--precision", "fp32", "--sample", "0", "--save",  saved, "--save-every", "1",  "--keep", "1"};
    run_well(1, wild + Words{"--lr", "1e-3", "--steps", "1"});
    check_one_line(run(1, wild + Words{"--lr", "3e38", "--steps", "2", "--resume", saved}), 4, {"weights: expected finite numbers"});
    CHECK(newest(saved) == saved + "/step-0000000001");
    Words const on{"--lr", "3e38", "--steps", "5", "--max-skips", "3", "--resume", saved};  // steps behind the bad one
    check_one_line(run(1, wild + on), 4, {"3 steps in a row were skipped at version 2"});
    CHECK(newest(saved) == saved + "/step-0000000001");
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
