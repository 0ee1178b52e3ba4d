#pragma once
// The project's own headers, sources and documents as training text.

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/data/tokens.hpp"

namespace lockstep::data {

/// C++, Markdown, text and CMake files below include, examples, tests, bench and cmake, and the top README.md and CMakeLists.txt;
/// sorted by path relative to the root, so equal trees give equal lists.
inline std::vector<std::filesystem::path> source_files(std::filesystem::path const& root) {
    namespace fs = std::filesystem;
    constexpr std::array<std::string_view, 5> folders{"include", "examples", "tests", "bench", "cmake"};
    constexpr std::array<std::string_view, 5> endings{".hpp", ".cpp", ".md", ".txt", ".cmake"};
    std::error_code                           failed;
    if (!fs::is_directory(root, failed))
        input_error("source text: expected the project's root folder at ", root, ", found none; name a data file instead");
    std::vector<fs::path> files;
    for (std::string_view const top : {"README.md", "CMakeLists.txt"})
        if (fs::is_regular_file(root / top, failed)) files.push_back(root / top);
    for (std::string_view const folder : folders) {
        if (!fs::is_directory(root / folder, failed)) continue;
        fs::path place = root / folder;  // the last one that was looked at
        auto     at    = fs::recursive_directory_iterator(place, failed);
        for (; !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
            place = at->path();
            std::error_code none;
            if (at->is_regular_file(none) && std::find(endings.begin(), endings.end(), place.extension().string()) != endings.end())
                files.push_back(place);
        }
        if (failed) input_error("source text: expected folders that can be read, found ", place, ": ", failed.message());
    }
    std::sort(files.begin(), files.end(), [&](fs::path const& a, fs::path const& b) {
        return a.lexically_relative(root).generic_string() < b.lexically_relative(root).generic_string();
    });
    if (files.empty()) input_error("source text: expected headers and sources below ", root, ", found none; name a data file instead");
    return files;
}

inline Tokens source_text(std::filesystem::path const& root) {
    return Tokens::texts(source_files(root), "the sources below " + root.string());
}

}  // namespace lockstep::data
