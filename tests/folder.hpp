#pragma once
// Files for tests: a folder that goes again, bytes in and out, and the sentence of the error that something ends in.

#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "lockstep/core/error.hpp"

namespace lockstep::test {

class Folder {
public:
    explicit Folder(std::filesystem::path const& parent = std::filesystem::temp_directory_path()) {
        std::string pattern = (parent / "lockstep_XXXXXX").string();
        path_               = ::mkdtemp(pattern.data());
        std::filesystem::permissions(path_, std::filesystem::perms(0755));  // for tests that become another user
    }
    Folder(Folder const&)            = delete;
    Folder& operator=(Folder const&) = delete;
    ~Folder() { std::filesystem::remove_all(path_); }

    std::filesystem::path const& path() const { return path_; }
    std::filesystem::path        operator/(std::string_view name) const { return path_ / name; }

    std::filesystem::path write(std::string_view name, std::string_view bytes) const {
        std::filesystem::create_directories((path_ / name).parent_path());
        std::ofstream(path_ / name, std::ios::binary) << bytes;
        return path_ / name;
    }
    std::size_t entries() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
    }

private:
    std::filesystem::path path_;
};

inline std::string read_all(std::filesystem::path const& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// A safetensors file's bytes: the length of the header, the header, the data.
inline std::string safetensors(std::string_view header, std::string_view data = {}) {
    std::uint64_t const length = header.size();
    std::string         bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes.append(header).append(data);
}

/// What an input error says; empty where there was none. Another exception passes through and fails the test.
template <class Body>
std::string refusal(Body const& body) {
    try {
        body();
    } catch (Error const& error) {
        return error.fault() == Fault::input ? error.what() : "not an input error";
    }
    return {};
}

inline bool mentions(std::string const& sentence, std::string_view part) { return sentence.find(part) != std::string::npos; }

}  // namespace lockstep::test
