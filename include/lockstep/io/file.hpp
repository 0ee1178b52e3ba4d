#pragma once
// Files by descriptor: reading at offsets, and writing so that a name never shows half a file.

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/io/block_buffer.hpp"

namespace lockstep::io {

/// Text that came from a file, fit for one line of a message: other bytes than printable ASCII as \xNN, cut after `limit` bytes.
inline std::string printable(std::string_view text, std::size_t limit = 160) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string                result;
    for (char const c : text.substr(0, limit)) {
        auto const byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7F)
            result += c;
        else
            (result += "\\x") += {digits[byte >> 4], digits[byte & 15u]};
    }
    if (text.size() > limit) result += "...";
    return result;
}

namespace detail {

/// Whether a name from outside is one of an entry of a directory, and no path that leads elsewhere.
inline bool names_an_entry(std::string_view name) noexcept {
    return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

inline std::string system_reason() { return std::generic_category().message(errno); }

class Descriptor {
public:
    explicit Descriptor(int number = -1) noexcept : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor() { close(); }

    int number() const noexcept { return number_; }
    int close() noexcept { return number_ < 0 ? 0 : ::close(std::exchange(number_, -1)); }

private:
    int number_;
};

/// Brings the names in a directory to the disk.
inline void sync_directory(std::filesystem::path const& directory) {
    Descriptor const folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.number() < 0 || (::fsync(folder.number()) != 0 && errno != EINVAL))
        input_error(directory.string(), ": writing the directory to disk failed: ", system_reason());
}

/// Whether a name is that of an unfinished file of a process that is no longer there: `.FILE.<process>.<number>.tmp`.
inline bool is_left_over(std::string_view name, std::string_view file) {
    constexpr std::string_view ending = ".tmp";
    if (!name.starts_with('.') || !name.ends_with(ending) || name.substr(1, file.size()) != file) return false;
    std::string_view middle = name.substr(1 + file.size());
    middle.remove_suffix(std::min(middle.size(), ending.size()));
    ::pid_t    process = 0;
    unsigned   number  = 0;
    auto const after   = [&](auto& value) {
        if (!middle.starts_with('.')) return false;
        auto const [end, code] = std::from_chars(middle.data() + 1, middle.data() + middle.size(), value);
        middle.remove_prefix(static_cast<std::size_t>(end - middle.data()));
        return code == std::errc();
    };
    return after(process) && after(number) && middle.empty() && process > 0 && ::kill(process, 0) != 0 && errno == ESRCH;
}

/// Removes unfinished files of this name that processes left which were killed. Whoever writes one holds its lock, so that of a process of
/// another host stays.
inline void remove_left_over(std::filesystem::path const& path) noexcept {
    try {
        std::vector<std::filesystem::path> found;
        std::string const                  file = path.filename().string();
        for (auto const& entry : std::filesystem::directory_iterator(path.has_parent_path() ? path.parent_path() : "."))
            if (is_left_over(entry.path().filename().string(), file)) found.push_back(entry.path());
        for (auto const& left : found) {
            Descriptor const descriptor(::open(left.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
            if (descriptor.number() >= 0 && ::flock(descriptor.number(), LOCK_EX | LOCK_NB) == 0) ::unlink(left.c_str());
        }
    } catch (std::exception const&) {  // then they stay
    }
}

}  // namespace detail

/// A regular file, open for reading. Its size is taken once; a file that shrinks later is an error where it is read.
class ReadableFile {
public:
    explicit ReadableFile(std::filesystem::path const& path) : name_(path.string()) {
        descriptor_ = detail::Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // not waiting for a pipe
        if (descriptor_.number() < 0) input_error(name_, ": expected a file that can be read, found: ", detail::system_reason());
        struct ::stat facts {};
        if (::fstat(descriptor_.number(), &facts) != 0) input_error(name_, ": cannot be examined: ", detail::system_reason());
        if (!S_ISREG(facts.st_mode))
            input_error(name_, ": expected a regular file, found ", S_ISDIR(facts.st_mode) ? "a directory" : "a special file");
        size_ = static_cast<std::uint64_t>(facts.st_size);
    }

    std::string const& name() const noexcept { return name_; }
    std::uint64_t      size() const noexcept { return size_; }

    void read(std::uint64_t offset, std::span<std::byte> out) const {
        while (!out.empty()) {
            ::ssize_t const count = ::pread(descriptor_.number(), out.data(), out.size(), static_cast<::off_t>(offset));
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) input_error(name_, ": reading at byte ", offset, " failed: ", detail::system_reason());
            if (count == 0) input_error(name_, ": expected ", out.size(), " more bytes at byte ", offset, ", found the end of the file");
            out = out.subspan(static_cast<std::size_t>(count));
            offset += static_cast<std::uint64_t>(count);
        }
    }

private:
    std::string        name_;
    detail::Descriptor descriptor_;
    std::uint64_t      size_ = 0;
};

/// A whole file of at most `limit` bytes.
inline std::string read_text(std::filesystem::path const& path, std::uint64_t limit) {
    ReadableFile const file(path);
    if (file.size() > limit) input_error(file.name(), ": expected at most ", limit, " bytes, found ", file.size());
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
}

/// Whether written bytes stay in the page cache. A large file that is not read soon passes it, where the file system can: that takes less
/// than half of the processor's time, and no memory from what runs beside.
enum class PageCache { used, passed };

/// A file that appears under its name only when it is complete: written under another name in the same directory, then renamed.
/// Without `commit` nothing remains.
class ReplacingFile {
public:
    explicit ReplacingFile(std::filesystem::path path, PageCache cache = PageCache::used) : path_(std::move(path)) {
        std::error_code ignored;
        auto const      kind = std::filesystem::status(path_, ignored).type();
        if (kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular &&
            kind != std::filesystem::file_type::none)
            input_error(name(), ": cannot be written: it exists and is not a regular file");
        if (kind == std::filesystem::file_type::regular && ::access(path_.c_str(), W_OK) != 0) fail("cannot be written");
        detail::remove_left_over(path_);
        static std::atomic<unsigned> count{0};
        for (int attempt = 0; attempt < 100 && descriptor_.number() < 0; ++attempt) {
            temporary_  = path_.parent_path() / sentence(".", path_.filename().string(), ".", ::getpid(), ".", count++, ".tmp");
            descriptor_ = detail::Descriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
            if (descriptor_.number() < 0 && errno != EEXIST) break;
        }
        if (descriptor_.number() < 0) {
            temporary_.clear();
            fail("cannot be created");
        }
        ::flock(descriptor_.number(), LOCK_EX | LOCK_NB);  // where there are locks; see remove_left_over
        if (cache == PageCache::used) return;
        direct_ = detail::Descriptor(::open(temporary_.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW));
        try {
            if (direct_.number() >= 0) gathered_.emplace();
        } catch (std::bad_alloc const&) {  // the cache needs no memory of this process
        }
    }
    ReplacingFile(ReplacingFile&& other) noexcept
        : path_(std::move(other.path_)),
          temporary_(std::exchange(other.temporary_, {})),
          descriptor_(std::move(other.descriptor_)),
          direct_(std::move(other.direct_)),
          lock_(std::move(other.lock_)),
          gathered_(std::move(other.gathered_)) {}
    ReplacingFile& operator=(ReplacingFile&&) = delete;
    ~ReplacingFile() {
        if (!temporary_.empty()) ::unlink(temporary_.c_str());
    }

    std::string name() const { return path_.string(); }

    void write(std::uint64_t offset, std::span<std::byte const> bytes) {
        if (!gathered_) return put(offset, bytes);
        while (!bytes.empty()) {
            std::size_t const taken = gathered_->take(offset, bytes);
            bytes                   = bytes.subspan(taken);
            offset += taken;
            if (!bytes.empty()) put_gathered();
        }
    }
    void write(std::uint64_t offset, std::string_view text) { write(offset, std::as_bytes(std::span(text))); }

    /// Brings the bytes to the disk, still under the other name. Nothing can be written afterwards.
    void finish() {
        if (descriptor_.number() < 0) return;
        if (gathered_) put_gathered();
        gathered_.reset();
        direct_.close();
        if (::fsync(descriptor_.number()) != 0) fail("writing to disk failed");
        lock_ = detail::Descriptor(::dup(descriptor_.number()));  // until the file has its name
        if (descriptor_.close() != 0) fail("closing failed");
    }

    /// Finishes, then brings the name to the file, then the name to the disk.
    void commit() {
        finish();
        if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("renaming the finished file failed");
        temporary_.clear();
        lock_.close();
        std::filesystem::path const directory = path_.has_parent_path() ? path_.parent_path() : ".";
        detail::Descriptor const    folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (folder.number() >= 0 && ::fsync(folder.number()) != 0 && errno != EINVAL) fail("writing its directory to disk failed");
    }

private:
    /// Writes through the page cache; with `direct` past it, where whole blocks are taken so.
    void put(std::uint64_t offset, std::span<std::byte const> bytes, bool direct = false) {
        while (!bytes.empty()) {
            int const       number = (direct ? direct_ : descriptor_).number();
            ::ssize_t const count  = ::pwrite(number, bytes.data(), bytes.size(), static_cast<::off_t>(offset));
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0 && direct) return put(offset, bytes);  // whatever it is, the cache may take them, or says what is wrong
            if (count == 0) errno = EIO;
            if (count <= 0) fail("writing failed");
            bytes = bytes.subspan(static_cast<std::size_t>(count));
            offset += static_cast<std::uint64_t>(count);
        }
    }
    void put_gathered() {
        auto const [before, blocks, after] = gathered_->parts();
        put(before.offset, before.bytes);
        put(blocks.offset, blocks.bytes, true);
        put(after.offset, after.bytes);
        gathered_->clear();
    }
    [[noreturn]] void fail(std::string_view what) const { input_error(name(), ": ", what, ": ", detail::system_reason()); }

    std::filesystem::path              path_, temporary_;
    detail::Descriptor                 descriptor_, direct_, lock_;
    std::optional<detail::BlockBuffer> gathered_;  // where bytes pass the page cache
};

/// A directory made with its parents where missing, and their names brought to the disk. Without `keep` those that were made and are still
/// empty go again.
class NewDirectory {
public:
    explicit NewDirectory(std::filesystem::path const& path) {
        std::error_code       reason;
        std::filesystem::path part = std::filesystem::absolute(path, reason);
        if (reason) input_error(path.string(), ": cannot be made a directory: the current one is not there: ", reason.message());
        for (; std::filesystem::status(part, reason).type() == std::filesystem::file_type::not_found; part = part.parent_path())
            made_.push_back(part);
        std::filesystem::create_directories(path, reason);
        if (reason || !std::filesystem::is_directory(path)) {
            remove();
            input_error(path.string(), ": cannot be made a directory: ", reason ? reason.message() : "a file has this name");
        }
        try {
            for (auto const& made : made_)
                if (::access(made.parent_path().c_str(), R_OK) == 0) detail::sync_directory(made.parent_path());  // else nobody can
        } catch (...) {
            remove();
            throw;
        }
    }
    NewDirectory(NewDirectory&& other) noexcept : made_(std::exchange(other.made_, {})) {}
    NewDirectory& operator=(NewDirectory&&) = delete;
    ~NewDirectory() { remove(); }

    void keep() noexcept { made_.clear(); }

private:
    void remove() const noexcept {
        for (auto const& path : made_) ::rmdir(path.c_str());
    }

    std::vector<std::filesystem::path> made_;  // innermost first
};

}  // namespace lockstep::io
