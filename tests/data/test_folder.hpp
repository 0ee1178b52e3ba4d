#pragma once
// A folder of its own for a test case, removed with what is in it.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "lockstep/core/error.hpp"

struct TestFolder {
    std::filesystem::path path = std::filesystem::temp_directory_path() / ("lockstep_data_test_" + std::to_string(::getpid()));

    TestFolder() {
        std::filesystem::remove_all(path);
        std::filesystem::create_directories(path);
    }
    TestFolder(TestFolder const&)            = delete;
    TestFolder& operator=(TestFolder const&) = delete;
    ~TestFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }

    std::filesystem::path write(std::string_view name, std::string_view content) const {
        std::filesystem::create_directories((path / name).parent_path());
        std::ofstream(path / name, std::ios::binary) << content;
        return path / name;
    }
};

/// The sentence of the input error that `call` raises; empty when it raises none.
template <class Call>
std::string refusal(Call&& call) {
    try {
        call();
    } catch (lockstep::Error const& error) {
        return error.fault() == lockstep::Fault::input ? error.what() : "not an input error";
    }
    return {};
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }
