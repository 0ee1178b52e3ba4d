// What a power cut may take: bytes and names are brought to the disk in the order in which one relies on the other. This program sees every
// fsync and every rename, and can make locks and removals fail.

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <string>
#include <vector>

#include "../folder.hpp"
#include "lockstep/io/checkpoint_folder.hpp"
#include "lockstep/io/checkpoint_writer.hpp"

namespace durability_test {

namespace fs = std::filesystem;

/// "sync PATH" and "name PATH", the new one, in order.
std::vector<std::string>& events() {
    static std::vector<std::string> list;
    return list;
}

bool nfs         = false;  // directories cannot be locked
bool no_removals = false;  // files cannot be removed

std::string path_of(int descriptor) {
    std::error_code failed;
    return fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor), failed).string();
}

}  // namespace durability_test

// In place of the C library's.
extern "C" int fsync(int descriptor) {
    durability_test::events().push_back("sync " + durability_test::path_of(descriptor));
    return static_cast<int>(::syscall(SYS_fsync, descriptor));
}
extern "C" int rename(char const* from, char const* to) noexcept {
    int const result = static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
    if (result == 0) durability_test::events().push_back(std::string("name ") + to);
    return result;
}

extern "C" int flock(int descriptor, int operation) noexcept {
    if (durability_test::nfs && std::filesystem::is_directory(durability_test::path_of(descriptor))) {
        errno = EBADF;
        return -1;
    }
    return static_cast<int>(::syscall(SYS_flock, descriptor, operation));
}
extern "C" int unlinkat(int directory, char const* path, int flags) noexcept {
    if (durability_test::no_removals) {
        errno = EPERM;
        return -1;
    }
    return static_cast<int>(::syscall(SYS_unlinkat, directory, path, flags));
}

namespace durability_test {

using namespace lockstep;
using namespace lockstep::io;
using test::Folder;

/// Where an event stands; of several the last. A missing one fails the test.
std::size_t place(std::string const& event) {
    auto const& list  = events();
    auto const  found = std::find(list.rbegin(), list.rend(), event);
    CHECK_MESSAGE(found != list.rend(), "never happened: ", event);
    return static_cast<std::size_t>(list.rend() - found);
}
std::string sync(fs::path const& path) { return "sync " + path.string(); }
std::string name(fs::path const& path) { return "name " + path.string(); }

/// A checkpoint of one number.
std::string publish(CheckpointFolder& home, std::uint64_t version, std::size_t keep) {
    std::array const      bytes{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
    CheckpointPiece const piece{"a", Dtype::f32, {1}, {0, 1}};
    home.begin(version);
    write_checkpoint_shard(home.unfinished(version), 0, 1, std::span(&piece, 1), bytes);
    write_checkpoint_index(home.unfinished(version), 1, {"a test", "", version, 1, {}, {}, {}});
    return home.publish(version, keep);
}

TEST_CASE("a file has its bytes on the disk before it has its name, and then the name") {
    Folder const folder;
    events().clear();
    ReplacingFile file(folder / "file");
    file.write(0, "bytes");
    file.commit();
    REQUIRE(events().size() == 3);
    CHECK(events()[0].starts_with(sync(folder / ".file.")));
    CHECK(events()[1] == name(folder / "file"));
    CHECK(events()[2] == sync(folder.path()));
}

TEST_CASE("of folders that were made each one's name is on the disk") {
    Folder const folder;
    events().clear();
    NewDirectory made(folder / "a/b/c");
    CHECK(std::ranges::count(events(), sync(folder.path())) == 1);
    CHECK(std::ranges::count(events(), sync(folder / "a")) == 1);
    CHECK(std::ranges::count(events(), sync(folder / "a/b")) == 1);
    events().clear();
    NewDirectory const there(folder / "a/b");
    CHECK(events().empty());
    made.keep();
}

TEST_CASE("a checkpoint is on the disk as a whole before it has its name, and before `latest` names it") {
    Folder const     folder;
    CheckpointFolder home(folder / "c");
    for (std::uint64_t const version : {7u, 8u, 8u}) {  // the third takes another one's place
        events().clear();
        fs::path const unfinished = home.unfinished(version), complete = home.complete(version);
        bool const     again = fs::exists(complete);
        publish(home, version, 1);
        std::size_t const folder_synced = place(sync(home.path()));
        CHECK(place(sync(unfinished)) > place(name(unfinished / "index.json")));
        CHECK(place(sync(unfinished)) > place(name(unfinished / "state-00001-of-00001.safetensors")));
        CHECK(folder_synced > place(name(home.path() / "latest")));
        if (again) continue;  // renameat2 exchanges the two: no rename is seen
        CHECK(place(name(complete)) > place(sync(unfinished)));
        CHECK(place(name(home.path() / "latest")) > place(name(complete)));
        auto const between =
            std::find(events().begin() + static_cast<std::ptrdiff_t>(place(name(complete))), events().end(), sync(home.path()));
        CHECK(between < events().begin() + static_cast<std::ptrdiff_t>(place(name(home.path() / "latest"))));
    }
    CHECK_FALSE(fs::exists(home.complete(7)));
    CHECK(newest_checkpoint(home.path()) == home.complete(8));
}

TEST_CASE("an old checkpoint that cannot be removed is told, and tried again") {
    Folder const     folder;
    CheckpointFolder home(folder / "c");
    publish(home, 1, 1);
    no_removals               = true;
    std::string const remains = publish(home, 2, 1);
    no_removals               = false;
    CHECK(remains == home.complete(1).string() + ": cannot be removed: Operation not permitted");
    CHECK(newest_checkpoint(home.path()) == home.complete(2));
    CHECK(publish(home, 3, 1).empty());
    CHECK(std::distance(fs::directory_iterator(home.path()), fs::directory_iterator()) == 2);  // version 3 and `latest`
}

TEST_CASE("a folder belongs to one run also where directories cannot be locked") {
    Folder const folder;
    nfs = true;
    {
        CheckpointFolder const home(folder / "c");
        CHECK(test::mentions(test::refusal([&] { CheckpointFolder const other(folder / "c"); }), "another one saves there"));
    }
    CHECK_NOTHROW(CheckpointFolder(folder / "c"));
    nfs = false;
}

}  // namespace durability_test
