#pragma once
// What every fuzz target promises: bytes from outside are accepted, or refused by one input error that names where they came from.

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::fuzz {

/// Takes bytes as one parser takes them from outside. Every target is listed in targets.cpp.
using Take = void(std::string_view bytes);

Take take_checkpoint, take_checkpoint_index, take_escape, take_flags, take_hugging_face_config, take_hugging_face_index,
    take_hugging_face_weights, take_json, take_safetensors, take_tokens;

struct Target {
    std::string_view name;
    Take*            take = nullptr;
};
Target const* find_target(std::string_view name) noexcept;

/// Ends the program so that libFuzzer keeps the input.
[[noreturn]] inline void finding(std::string_view what, std::string_view sentence) {
    std::fprintf(stderr, "FINDING: %.*s: \"%.*s\"\n", static_cast<int>(what.size()), what.data(), static_cast<int>(sentence.size()),
                 sentence.data());
    std::abort();
}
inline void expect(bool holds, std::string_view what) {
    if (!holds) finding("expected what does not hold", what);
}

/// Whether `body` accepted what it read. Every exception but an input error passes through, and is a finding.
template <class Body>
bool accepts(std::string_view source, Body const& body) {
    try {
        body();
        return true;
    } catch (Error const& error) {
        std::string_view const sentence = error.what();
        if (error.fault() != Fault::input) finding("not an input error", sentence);
        if (sentence.find(source) == std::string_view::npos) finding("the sentence does not name its source", sentence);
        if (std::any_of(sentence.begin(), sentence.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }))
            finding("the sentence is more than one line of text", sentence);
        return false;
    }
}

/// A file in memory that holds the bytes of the present input.
class MemoryFile {
public:
    MemoryFile() : MemoryFile(::memfd_create("input", MFD_CLOEXEC)) {}
    explicit MemoryFile(std::filesystem::path const& path) : MemoryFile(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {}
    MemoryFile(MemoryFile const&)            = delete;
    MemoryFile& operator=(MemoryFile const&) = delete;
    ~MemoryFile() { ::close(number_); }

    /// The name by which this process opens it again.
    std::string const& path() const noexcept { return path_; }

    void hold(std::string_view bytes) const {
        auto const size = static_cast<::off_t>(bytes.size());
        expect(::ftruncate(number_, size) == 0 && ::pwrite(number_, bytes.data(), bytes.size(), 0) == size, "room in memory");
    }

private:
    explicit MemoryFile(int number) : number_(number), path_("/proc/self/fd/" + std::to_string(number)) {
        expect(number >= 0, "a file in memory");
    }

    int         number_;
    std::string path_;
};

/// A folder, in memory where there is /dev/shm, that goes again with what is in it.
class Folder {
public:
    Folder() {
        std::error_code failed;
        std::string     pattern = std::filesystem::is_directory("/dev/shm", failed) ? "/dev/shm" : std::filesystem::temp_directory_path();
        pattern += "/lockstep_fuzz_XXXXXX";
        expect(::mkdtemp(pattern.data()) != nullptr, "a folder of its own");
        path_ = pattern;
    }
    Folder(Folder const&)            = delete;
    Folder& operator=(Folder const&) = delete;
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    std::filesystem::path const& path() const noexcept { return path_; }
    std::filesystem::path        operator/(std::string_view name) const { return path_ / name; }

    void write(std::string_view name, std::string_view bytes) const {
        std::filesystem::create_directories((path_ / name).parent_path());
        MemoryFile(path_ / name).hold(bytes);
    }

private:
    std::filesystem::path path_;
};

/// Takes the first byte off: inputs begin with a choice.
inline std::uint8_t choice(std::string_view& bytes) {
    if (bytes.empty()) return 0;
    auto const first = static_cast<std::uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    return first;
}

}  // namespace lockstep::fuzz
