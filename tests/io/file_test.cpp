#include <doctest/doctest.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <csignal>

#include "../folder.hpp"
#include "lockstep/io/file.hpp"

namespace file_test {

using namespace lockstep;
using namespace lockstep::io;
using test::Folder;
using test::mentions;
using test::refusal;
using Words = std::vector<std::string>;

TEST_CASE("text from a file is shown on one line and cut") {
    CHECK(printable("a\nb\x7f\xff") == "a\\x0ab\\x7f\\xff");
    CHECK(printable("abcdef", 3) == "abc...");
}

TEST_CASE("what is not a regular file is refused by name without waiting") {
    Folder const folder;
    CHECK(mentions(refusal([&] { ReadableFile(folder / "absent"); }), "absent: expected a file that can be read, found: No such file"));
    CHECK(mentions(refusal([&] { ReadableFile(folder.path()); }), "expected a regular file, found a directory"));
    CHECK(mentions(refusal([&] { ReadableFile("/dev/zero"); }), "/dev/zero: expected a regular file, found a special file"));
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    CHECK(mentions(refusal([&] { ReadableFile(folder / "pipe"); }), "pipe: expected a regular file"));
}

TEST_CASE("a file that became shorter, or is longer than allowed, is an error that names it") {
    Folder const       folder;
    ReadableFile const file(folder.write("short", "12345678"));
    std::filesystem::resize_file(folder / "short", 5);
    std::string text(8, '\0');
    CHECK(mentions(refusal([&] { file.read(0, std::as_writable_bytes(std::span(text))); }), "short: expected 3 more bytes at byte 5"));
    CHECK(mentions(refusal([&] { read_text(folder / "short", 4); }), "short: expected at most 4 bytes, found 5"));
    CHECK(read_text(folder / "short", 5) == "12345");
}

TEST_CASE("a replaced file shows its new bytes only after the commit, and nothing is left without one") {
    Folder const folder;
    folder.write("x", "old");
    {
        ReplacingFile file(folder / "x");
        file.write(0, "new bytes");
        CHECK(test::read_all(folder / "x") == "old");
        CHECK(folder.entries() == 2);
    }
    CHECK(folder.entries() == 1);
    ReplacingFile file(folder / "x");
    file.write(4, "bytes");
    file.write(0, "new ");
    file.finish();
    CHECK(test::read_all(folder / "x") == "old");
    file.commit();
    CHECK(test::read_all(folder / "x") == "new bytes");
    CHECK(folder.entries() == 1);
}

TEST_CASE("special files and directories are never replaced, and a missing directory is an error that names the file") {
    Folder const folder;
    CHECK(mentions(refusal([&] { ReplacingFile("/dev/full"); }), "/dev/full: cannot be written: it exists and is not a regular file"));
    CHECK(mentions(refusal([&] { ReplacingFile(folder.path()); }), "is not a regular file"));
    CHECK(mentions(refusal([&] { ReplacingFile(folder / "no/such"); }), "no/such: cannot be created: No such file or directory"));
    CHECK(folder.entries() == 0);
}

TEST_CASE("a write that the system refuses names the file and leaves nothing") {
    Folder const folder;
    ::rlimit     before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    auto const     handler = std::signal(SIGXFSZ, SIG_IGN);
    ::rlimit const small{4096, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    std::string const said = refusal([&] {
        ReplacingFile file(folder / "large");
        file.write(0, std::string(10000, 'x'));
        file.commit();
    });
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    CHECK(mentions(said, "large: writing failed: File too large"));
    CHECK(folder.entries() == 0);
}

TEST_CASE("what a killed process left of a file goes when the file is written again, what somebody may still write stays") {
    Folder const  folder;
    ::pid_t const gone = ::fork();
    if (gone == 0) ::_exit(0);
    REQUIRE(::waitpid(gone, nullptr, 0) == gone);
    auto const        left  = [&](std::string const& name) { return std::filesystem::exists(folder / name); };
    std::string const owner = std::to_string(gone), dead = ".x." + owner + ".0.tmp", locked = ".x." + owner + ".1.tmp";
    Words const       others{".x." + std::to_string(::getpid()) + ".900.tmp",
                       ".x." + owner + ".tmp",
                       ".x." + owner + ".0.0.tmp",
                       ".x.-5.0.tmp",
                       ".x.0.0.tmp",
                       ".y." + owner + ".0.tmp",
                       ".xx." + owner + ".0.tmp",
                       "x." + owner + ".0.tmp",
                       ".x." + owner + ".0.tmp~",
                       locked};
    for (std::string const& name : others) folder.write(name, "another's");
    folder.write(dead, "half");
    detail::Descriptor const writer(::open((folder / locked).c_str(), O_RDONLY));  // as one of another host would
    REQUIRE(::flock(writer.number(), LOCK_EX | LOCK_NB) == 0);
    {
        ReplacingFile file(folder / "x");
        CHECK_FALSE(left(dead));
        ReplacingFile second(folder / "x");
        second.write(0, "2");
        file.write(0, "1");
        second.commit();
        file.commit();
    }
    CHECK(test::read_all(folder / "x") == "1");
    for (std::string const& name : others) CHECK_MESSAGE(left(name), name);
    CHECK(folder.entries() == others.size() + 1);
}

TEST_CASE("directories that were made go again unless they are kept or hold something") {
    Folder const folder;
    { NewDirectory const made(folder / "a/b/c"); }
    CHECK(folder.entries() == 0);
    {
        NewDirectory const made(folder / "a/b");
        folder.write("a/file", "x");
    }
    CHECK(std::filesystem::exists(folder / "a/file"));
    CHECK_FALSE(std::filesystem::exists(folder / "a/b"));
    NewDirectory(folder / "kept").keep();
    CHECK(std::filesystem::is_directory(folder / "kept"));
    CHECK(mentions(refusal([&] { NewDirectory(folder / "a/file"); }), "a/file: cannot be made a directory"));
    CHECK(mentions(refusal([&] { NewDirectory(folder / "a/file/below"); }), "below: cannot be made a directory"));
}

}  // namespace file_test
