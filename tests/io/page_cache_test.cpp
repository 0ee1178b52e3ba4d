// Files that pass the page cache have the bytes of others, however they were written. This program sees every write, and can refuse those
// that pass the cache, as some file systems do.

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../folder.hpp"
#include "lockstep/io/block_buffer.hpp"
#include "lockstep/io/checkpoint_writer.hpp"
#include "lockstep/io/file.hpp"
#include "lockstep/io/safetensors.hpp"

namespace page_cache_test {

enum class Direct { taken, refused, short_then_full };  // what the file system does with a write past the cache

Direct        direct  = Direct::taken;
std::uint64_t past    = 0;  // bytes written past the cache
std::uint64_t through = 0;  // and through it

}  // namespace page_cache_test

// In place of the C library's.
extern "C" ssize_t pwrite(int descriptor, void const* bytes, std::size_t count, off_t offset) {
    using namespace page_cache_test;
    bool const passes = (::fcntl(descriptor, F_GETFL) & O_DIRECT) != 0;
    if (passes && direct == Direct::refused) {
        errno = EINVAL;
        return -1;
    }
    if (direct == Direct::short_then_full) {
        if (past > 0) {
            errno = ENOSPC;
            return -1;
        }
        count = std::min<std::size_t>(count, 4096);
    }
    ssize_t const written = ::syscall(SYS_pwrite64, descriptor, bytes, count, offset);
    if (written > 0) (passes ? past : through) += static_cast<std::uint64_t>(written);
    return written;
}

namespace page_cache_test {

namespace fs = std::filesystem;

using namespace lockstep;
using namespace lockstep::io;
using detail::BlockBuffer;
using test::Folder;

void begin(Direct how) {
    direct = how;
    past = through = 0;
}

std::string random_text(std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::string  text(size, '\0');
    for (char& c : text) c = static_cast<char>(random());
    return text;
}

/// Where the build lies, since /tmp may be in memory. Says so where files there cannot pass the page cache at all.
struct Place : Folder {
    bool can_pass = false;

    Place() : Folder(fs::absolute(fs::current_path())) {
        detail::Descriptor const file(::open(write("probe", "").c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC));
        can_pass = file.number() >= 0;
        fs::remove(*this / "probe");
        if (!can_pass) MESSAGE("SKIPPED: ", path(), " has no O_DIRECT");
    }
};

constexpr std::size_t room = BlockBuffer::room;

TEST_CASE("a buffer holds bytes that follow each other, and parts them at blocks") {
    std::string const text  = random_text(3 * room, 1);
    auto const        bytes = std::as_bytes(std::span(text));
    for (std::uint64_t const begin : {0u, 1u, 4095u, 4096u, 4097u, 12345u})
        for (std::size_t const size : {std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{9000}, room - 1, room, room + 1}) {
            CAPTURE(begin);
            CAPTURE(size);
            BlockBuffer       buffer;
            std::size_t const taken = buffer.take(begin, bytes.first(size));
            CHECK(taken == std::min(size, room - begin % 4096));
            CHECK(buffer.take(begin + taken + 1, bytes) == 0);
            auto const [before, blocks, after] = buffer.parts();
            CHECK(before.offset == begin);
            CHECK(before.offset + before.bytes.size() == blocks.offset);
            CHECK(blocks.offset + blocks.bytes.size() == after.offset);
            CHECK(after.offset + after.bytes.size() == begin + taken);
            CHECK(before.bytes.size() < 4096);
            CHECK(after.bytes.size() < 4096);
            CHECK(blocks.bytes.size() % 4096 == 0);
            if (!blocks.bytes.empty()) {
                CHECK(blocks.offset % 4096 == 0);
                CHECK(reinterpret_cast<std::uintptr_t>(blocks.bytes.data()) % 4096 == 0);
            }
            std::size_t at = 0;
            for (auto const& part : {before, blocks, after}) {
                CHECK(std::ranges::equal(part.bytes, bytes.subspan(at, part.bytes.size())));
                at += part.bytes.size();
            }
            buffer.clear();
            CHECK(buffer.take(7, bytes.first(1)) == 1);
        }
}

TEST_CASE("one byte after the other: whole blocks pass the cache") {
    Place const folder;
    if (!folder.can_pass) return;
    for (std::size_t const size : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{70'001}, room, 2 * room + 4097}) {
        CAPTURE(size);
        begin(Direct::taken);
        std::string const text = random_text(size, 2);
        ReplacingFile     file(folder / "x", PageCache::passed);
        for (std::size_t at = 0; at < size;) {
            std::size_t const count = std::min<std::size_t>(size - at, 1 + (at * 31) % 100'000);
            file.write(at, std::string_view(text).substr(at, count));
            at += count;
        }
        file.commit();
        CHECK(test::read_all(folder / "x") == text);
        CHECK(past == size / 4096 * 4096);
        CHECK(through == size % 4096);
    }
}

TEST_CASE("in any order, and where the file system refuses, the bytes are the same") {
    Place const       folder;
    std::size_t const size = room + 100'003;
    std::string const text = random_text(size, 3);
    for (Direct const how : {Direct::taken, Direct::refused}) {
        begin(how);
        std::mt19937             random(4);
        std::vector<std::size_t> cuts{0, size, 4096, 8192, 40'960};
        for (int i = 0; i < 60; ++i) cuts.push_back(random() % size);
        std::ranges::sort(cuts);
        std::vector<std::size_t> order(cuts.size() - 1);
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::ranges::shuffle(order, random);
        ReplacingFile file(folder / "x", PageCache::passed);
        for (std::size_t const i : order) file.write(cuts[i], std::string_view(text).substr(cuts[i], cuts[i + 1] - cuts[i]));
        for (std::size_t const i : {order[0], order[7]})  // again, over what is there
            file.write(cuts[i], std::string_view(text).substr(cuts[i], cuts[i + 1] - cuts[i]));
        file.finish();
        file.commit();
        CHECK(test::read_all(folder / "x") == text);
        if (folder.can_pass) CHECK((past > 0) == (how == Direct::taken));
    }
}

TEST_CASE("a disk that becomes full names the file and leaves nothing") {
    Place const folder;
    if (!folder.can_pass) return;
    begin(Direct::short_then_full);
    std::string const said = test::refusal([&] {
        ReplacingFile file(folder / "x", PageCache::passed);
        file.write(0, random_text(20'000, 5));
        file.commit();
    });
    begin(Direct::taken);
    CHECK(test::mentions(said, "x: writing failed: No space left on device"));
    CHECK(folder.entries() == 0);
}

TEST_CASE("a shard of several pieces passes the cache but for its end, and reads back") {
    Place const folder;
    if (!folder.can_pass) return;
    std::string const                    text = random_text(4 * 300'000 + 2 * 70'001 + 4 * 50'000, 6);
    std::array<CheckpointPiece, 3> const pieces{CheckpointPiece{"z", Dtype::f32, {300'000}, {0, 300'000}, 0},
                                                CheckpointPiece{"a", Dtype::bf16, {70'001}, {0, 70'001}, 4 * 300'000},
                                                CheckpointPiece{"m", Dtype::f32, {500, 100}, {0, 50'000}, 4 * 300'000 + 2 * 70'001}};
    begin(Direct::taken);
    write_checkpoint_shard(folder.path(), 0, 1, pieces, std::as_bytes(std::span(text)));
    fs::path const    path  = folder / "state-00001-of-00001.safetensors";
    std::string const found = test::read_all(path);
    CHECK(past == found.size() / 4096 * 4096);
    SafetensorsFile const file(path);
    std::size_t const     data = found.size() - text.size();
    for (CheckpointPiece const& piece : pieces)
        CHECK(found.substr(data + file.tensor(piece.tensor).begin, piece.bytes()) == text.substr(piece.offset, piece.bytes()));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need memory at any time
TEST_CASE("without memory to gather in, a file is written through the cache") {
    Place const folder;
    ::rlimit    before{};
    ::getrlimit(RLIMIT_AS, &before);
    std::ifstream statm("/proc/self/statm");
    rlim_t        pages = 0;
    statm >> pages;
    ::rlimit const now{pages * static_cast<rlim_t>(::getpagesize()) + (rlim_t{2} << 20), before.rlim_max};
    begin(Direct::taken);
    ::setrlimit(RLIMIT_AS, &now);
    std::optional<ReplacingFile> file;
    CHECK_NOTHROW(file.emplace(folder / "x", PageCache::passed));
    ::setrlimit(RLIMIT_AS, &before);
    file->write(0, std::string(10'000, 'x'));
    file->commit();
    CHECK(through == 10'000);
    CHECK(past == 0);
    CHECK(test::read_all(folder / "x") == std::string(10'000, 'x'));
}
#endif

}  // namespace page_cache_test
