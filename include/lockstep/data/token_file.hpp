#pragma once
// A file of tokens, read at offsets (POSIX). Not mapped: where a mapped file is cut by somebody else, reading it ends the process.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::data {

/// Refuses what is missing, unreadable, empty or no regular file, each by its own sentence. Its size is taken once; what is no longer
/// there later is an input error where it is read. Any thread may read.
class TokenFile {
public:
    TokenFile() = default;
    explicit TokenFile(std::filesystem::path path) : path_(std::move(path)) {
        // O_NONBLOCK: a pipe without a writer must be refused, not waited for
        file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (file_ < 0 && errno == ENOENT) input_error("data file ", path_, ": expected a file to read, found that it does not exist");
        if (file_ < 0) input_error("data file ", path_, ": expected a file that can be read, found: ", reason());
        struct stat status {};
        if (::fstat(file_, &status) != 0) refuse("cannot be read: ", reason());
        if (S_ISDIR(status.st_mode)) refuse("expected a file, found a directory");
        if (!S_ISREG(status.st_mode)) refuse("expected a regular file, found a pipe or a device");
        if (status.st_size == 0) refuse("expected tokens, found an empty file");
        size_ = static_cast<std::size_t>(status.st_size);
    }
    TokenFile(TokenFile&& other) noexcept
        : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), size_(std::exchange(other.size_, 0)) {}
    TokenFile& operator=(TokenFile&& other) noexcept {
        std::swap(path_, other.path_);
        std::swap(file_, other.file_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~TokenFile() {
        if (file_ >= 0) ::close(file_);
    }

    std::size_t size() const noexcept { return size_; }  // bytes

    void read(std::size_t offset, std::span<std::byte> out) const {
        while (!out.empty()) {
            ::ssize_t const count = ::pread(file_, out.data(), out.size(), static_cast<::off_t>(offset));
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) input_error("data file ", path_, ": cannot be read at byte ", offset, ": ", reason());
            if (count == 0) {
                struct stat now {};
                static_cast<void>(::fstat(file_, &now));
                input_error("data file ", path_, ": expected ", size_, " bytes as when it was opened, found ", now.st_size);
            }
            out = out.subspan(static_cast<std::size_t>(count));
            offset += static_cast<std::size_t>(count);
        }
    }

private:
    template <class... Parts>
    [[noreturn]] void refuse(Parts const&... parts) {
        ::close(std::exchange(file_, -1));
        input_error("data file ", path_, ": ", parts...);
    }
    static std::string reason() { return std::generic_category().message(errno); }

    std::filesystem::path path_;
    int                   file_ = -1;
    std::size_t           size_ = 0;
};

}  // namespace lockstep::data
