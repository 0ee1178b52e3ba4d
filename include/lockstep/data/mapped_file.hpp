#pragma once
// A file as read-only memory (POSIX).

#include <fcntl.h>
#include <sys/mman.h>
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

/// Refuses what is missing, unreadable, empty or no regular file, each by its own sentence.
class MappedFile {
public:
    MappedFile() = default;
    explicit MappedFile(std::filesystem::path const& path) {
        // O_NONBLOCK: a pipe without a writer must be refused, not waited for
        int const file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (file < 0) {
            int const why = errno;
            if (why == ENOENT) input_error("data file ", path, ": expected a file to read, found that it does not exist");
            input_error("data file ", path, ": cannot be opened: ", std::generic_category().message(why));
        }
        struct stat status {};
        int         why = ::fstat(file, &status) != 0 ? errno : 0;
        if (why == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
            size_             = static_cast<std::size_t>(status.st_size);
            void* const start = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
            if (start == MAP_FAILED)
                why = errno;
            else
                data_ = static_cast<std::byte const*>(start);
        }
        ::close(file);
        if (why != 0) input_error("data file ", path, ": cannot be read: ", std::generic_category().message(why));
        if (S_ISDIR(status.st_mode)) input_error("data file ", path, ": expected a file, found a directory");
        if (!S_ISREG(status.st_mode)) input_error("data file ", path, ": expected a regular file, found a pipe or a device");
        if (size_ == 0) input_error("data file ", path, ": expected tokens, found an empty file");
    }
    MappedFile(MappedFile&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    MappedFile& operator=(MappedFile&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~MappedFile() {
        if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
    }

    std::span<std::byte const> bytes() const noexcept { return {data_, size_}; }

private:
    std::byte const* data_ = nullptr;
    std::size_t      size_ = 0;
};

}  // namespace lockstep::data
