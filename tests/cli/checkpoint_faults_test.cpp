// Checkpoints that cannot be written cost nothing but themselves; those that cannot be trusted are refused by one line, on all ranks.

#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <system_error>

#include "checkpointing.hpp"

namespace checkpoint_faults_test {

using namespace lockstep::test;
namespace fs = std::filesystem;

/// Lets the processes that are started write no file beyond so many bytes.
class FileLimit {
public:
    explicit FileLimit(rlim_t bytes) {
        REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
        rlimit now   = before_;
        now.rlim_cur = bytes;
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &now) == 0);
    }
    ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

private:
    rlimit before_{};
};

/// A small file system in memory, where this process may mount one.
class Disk {
public:
    Disk(std::string path, char const* size) : path_(std::move(path)) {
        fs::create_directory(path_);
        mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, size) == 0;
        if (!mounted_) refusal_ = std::generic_category().message(errno);
    }
    Disk(Disk const&)            = delete;
    Disk& operator=(Disk const&) = delete;
    ~Disk() {
        if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
    }
    /// Says so where it is not: the test case ends without having tried anything.
    bool mounted() const {
        if (!mounted_) MESSAGE("SKIPPED, nothing of this test case was tried: mounting a tmpfs was refused: ", refusal_);
        return mounted_;
    }
    bool close() const { return ::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0; }

private:
    std::string path_, refusal_;
    bool        mounted_ = false;
};

/// The run does all else, says on standard error once for every version that it was not saved, and keeps what was saved before. The last
/// one is an error.
void check_unsaved(Ended const& ended, int version, int last, std::string const& folder, std::string const& reason) {
    INFO(ended.err);
    CHECK(ended.code == 2);
    CHECK(count(ended.err, "\n") == 2);
    CHECK(count(ended.err, "--save: version " + std::to_string(version) + " is not saved, the run goes on: ") == 1);
    CHECK(count(ended.err, "--save " + folder + ": version " + std::to_string(last) + ", where the run ends, is not saved: ") == 1);
    CHECK(count(ended.err, reason) == 2);
}

constexpr std::pair<int, char const*> ways[]{{1, "single"}, {2, "replicated"}, {3, "sharded"}};

TEST_CASE("a file that may not grow: the run goes on, and nothing unfinished remains") {
    CheckpointPlace const place;
    for (auto const& [ranks, strategy] : ways) {
        Words const     flags = place.flags + Words{"--strategy", strategy, "--save", place.saved, "--save-every", "1"};
        FileLimit const limit(rlim_t{18} << 20);  // MPI itself makes files of some MiB
        Words           wide                                = flags;
        *(std::find(wide.begin(), wide.end(), "--dim") + 1) = "512";
        check_unsaved(run(ranks, wide + Words{"--steps", "2"}), 1, 2, place.saved, ".safetensors: writing failed: File too large");
        CHECK_FALSE(fs::exists(place.saved));
    }
}

TEST_CASE("a full disk: the run goes on, and the checkpoints that are there stay and load") {
    CheckpointPlace const place;
    Disk const            disk(place.folder / "disk", "size=600k");  // one checkpoint has about 340 KiB: there is no room for another
    if (!disk.mounted()) return;
    std::string const saved = place.folder / "disk/saved";
    for (auto const& [ranks, strategy] : ways) {
        Ended const ended = run(ranks, place.steps(40) + Words{"--strategy", strategy, "--save", saved, "--save-every", "1"});
        INFO(ended.err);
        CHECK(ended.code == 2);
        CHECK(count(ended.err, "No space left on device") > 0);
        CHECK(count(ended.err, "\n") == count(ended.err, "is not saved, the run goes on: ") + 1);
        CHECK(count(ended.err, "--save " + saved + ": version 40, where the run ends, is not saved: ") == 1);
        CHECK(strangers(saved).empty());
        CHECK(checkpoints(saved) == 1);
        run_well(ranks, place.steps(41) + Words{"--strategy", strategy, "--resume", saved});
        fs::remove_all(saved);
    }
}

TEST_CASE("a folder that can only be read: the run goes on, and the checkpoints that are there stay") {
    CheckpointPlace const place;
    Disk const            disk(place.folder / "disk", "size=5m");
    if (!disk.mounted()) return;
    std::string const saved = place.folder / "disk/saved";
    run_well(1, place.steps(2) + Words{"--save", saved});
    auto const before = contents_of(newest(saved));
    REQUIRE(disk.close());
    for (auto const& [ranks, strategy] : ways) {
        Words const flags = place.steps(4) + Words{"--strategy", strategy, "--resume", saved, "--save", saved, "--save-every", "1"};
        check_unsaved(run(ranks, flags + Words{"--export", place.out}), 3, 4, saved, "Read-only file system");
        CHECK(fs::exists(place.out + "/model.safetensors"));
        fs::remove_all(place.out);
    }
    CHECK((contents_of(newest(saved)) == before));
}

TEST_CASE("two runs do not save to one folder at once") {
    CheckpointPlace const place;
    Background            first(place.folder, 1, place.steps(100000) + Words{"--save", place.saved, "--metrics", place.metrics});
    REQUIRE(first.wait([&] { return fs::exists(place.metrics) && !read_all(place.metrics).empty(); }));
    Ended const second = run(2, place.steps(2) + Words{"--save", place.saved});
    first.signal(0, SIGTERM);
    CHECK(first.end().code == 0);
    INFO(second.err);
    CHECK(second.code == 2);
    CHECK(count(second.err, "another one saves there") == 1);
    CHECK(count(second.err, "\n") == 1);
}

/// Exit code 2 and one line that says so, nothing written.
void check_refused(CheckpointPlace const& place, Words const& flags, Words const& says) {
    for (auto const& [ranks, strategy] : {std::pair{1, "single"}, {2, "sharded"}}) {
        Ended const ended = run(ranks, flags + Words{"--strategy", strategy, "--metrics", place.metrics, "--export", place.out}, 30);
        int const   size  = ranks;
        CAPTURE(size);
        CAPTURE(joined(flags));
        CAPTURE(ended.err);
        CHECK(ended.code == 2);
        CHECK(count(ended.err, "\n") == 1);
        CHECK(count(ended.err, "rank 0:") + count(ended.err, "rank 1:") == 0);
        CHECK(ended.out.empty());
        for (std::string const& words : says) CHECK_MESSAGE(count(ended.err, words) != 0, "must say: ", words);
        CHECK_FALSE(fs::exists(place.metrics));
        CHECK_FALSE(fs::exists(place.out));
    }
}

TEST_CASE("flags of checkpoints that do not go together") {
    CheckpointPlace const place;
    check_refused(place, place.steps(1) + Words{"--save-every", "2"}, {"--save-every", "expected --save beside it"});
    check_refused(place, place.steps(1) + Words{"--keep", "2"}, {"--keep", "expected --save beside it"});
    check_refused(place, place.steps(1) + Words{"--save", place.saved, "--keep", "0"}, {"--keep", "whole number from 1", "found 0"});
    check_refused(place, place.steps(1) + Words{"--save", place.saved, "--save-every", "-1"},
                  {"--save-every", "whole number from 1", "found -1"});
    check_refused(place, place.steps(1) + Words{"--save", place.data + "/x"}, {"data.bin/x", "cannot be made a directory"});
    check_refused(place, place.steps(1) + Words{"--resume", place.folder / "none"},
                  {"none", "expected a folder of checkpoints, found nothing"});
    check_refused(place, place.steps(1) + Words{"--resume", place.data}, {"data.bin", "expected a folder of checkpoints, found a file"});
    fs::create_directory(place.folder / "empty");
    check_refused(place, place.steps(1) + Words{"--resume", place.folder / "empty"}, {"empty", "expected a checkpoint", "found none"});
}

TEST_CASE("a checkpoint of another model, or one that is damaged, is refused") {
    CheckpointPlace const place;
    run_well(2, place.steps(2) + Words{"--save", place.saved});
    Words const resume = place.steps(3) + Words{"--resume", place.saved};
    auto const  with   = [&](char const* flag, char const* value) {
        Words changed = resume;
        if (auto const at = std::find(changed.begin(), changed.end(), flag); at != changed.end())
            *(at + 1) = value;
        else
            changed = changed + Words{flag, value};
        return changed;
    };
    check_refused(place, with("--layers", "3"), {"index.json", "expected the tensor \"master.h.2.", "not found"});
    check_refused(place, with("--layers", "1"), {"index.json", "expected no tensor \"", "h.1.", "found one"});
    check_refused(place, with("--dim", "64"), {"index.json", "expected shape [", "found ["});
    check_refused(place, with("--arch", "llama"), {"index.json", "expected the tensor \"", "not found"});
    check_refused(place, with("--optimizer", "sgd"), {"index.json", "expected no tensor \"optimizer.1.", "found one"});
    check_refused(place, with("--seed", "8"), {"index.json", "expected the seed of this run, 8, found 1337"});
    check_refused(place, with("--steps", "1"), {"--steps 1", "expected at least 2, the version of the run in " + place.saved});
    check_refused(place, with("--global-batch", "32"), {"--global-batch 32", "divisor of the 24 samples", "found a remainder of 24"});

    std::string const place_of = newest(place.saved), first = place_of + "/state-00001-of-00002.safetensors",
                      index = place_of + "/index.json";
    std::string const good = read_all(first), text = read_all(index);
    auto const        damaged = [&](std::string const& file, std::string const& bytes, Words const& says) {
        std::string const before = read_all(file);
        std::ofstream(file, std::ios::binary) << bytes;
        check_refused(place, resume, says);
        std::ofstream(file, std::ios::binary) << before;
    };
    auto const changed = [&](std::function<void(nlohmann::json&)> const& change) {
        auto json = nlohmann::json::parse(text);
        json.erase("checksum");  // which would see every change
        change(json);
        return json.dump();
    };
    damaged(first, good.substr(0, good.size() - 4), {"state-00001-of-00002.safetensors", "truncated"});
    damaged(first, good + "1234", {"state-00001-of-00002.safetensors", "trailing bytes"});
    damaged(first, "", {"state-00001-of-00002.safetensors", "found only 0 bytes"});
    std::string flipped         = good;
    flipped[flipped.size() - 7] = static_cast<char>(flipped[flipped.size() - 7] ^ 16);
    damaged(first, flipped, {"state-00001-of-00002.safetensors", "expected the checksum ", "found "});
    damaged(index, text.substr(0, text.size() / 2), {"index.json", "expected JSON"});
    damaged(index, "[]", {"index.json", "expected a JSON object"});
    damaged(index, changed([](auto& j) { j["format_version"] = 9; }), {"index.json", "\"format_version\" must be 1, found 9"});
    damaged(index, changed([](auto& j) { j["version"] = -3; }), {"index.json", "\"version\""});
    damaged(index, changed([](auto& j) { j["tensors"]["master.wte"]["pieces"][0]["file"] = "../x.safetensors"; }),
            {"index.json", "a name in the same directory", "../x"});
    damaged(index, changed([](auto& j) { j["tensors"]["master.wte"]["pieces"][0]["range"][0] = 1; }), {"index.json", "master.wte", "hole"});
    damaged(index, changed([](auto& j) { j["tensors"]["master.wte"]["pieces"].clear(); }), {"index.json", "1952 elements", "found 0"});
    damaged(index, changed([](auto& j) { j["tensors"]["master.wte"]["dtype"] = "F64"; }), {"safetensors", "dtype F64", "found F32"});
    damaged(place.saved + "/latest", "../saved/step-0000000002", {"latest", "a name in the same directory"});
    damaged(place.saved + "/latest", "step-0000000007\n", {"latest", "step-0000000007", "No such file"});
    fs::rename(first, place.folder / "elsewhere");
    check_refused(place, resume, {"index.json", "state-00001-of-00002.safetensors", "No such file"});
    fs::create_symlink(place.folder / "elsewhere", first);
    check_refused(place, resume, {"index.json", "found a link to "});
    fs::remove(first);
    fs::rename(place.folder / "elsewhere", first);
    run_well(1, resume);
}

}  // namespace checkpoint_faults_test
