// What the README shows is what is compiled and run.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace readme_test {

std::string text_of(std::filesystem::path const& path) {
    std::ifstream in(std::filesystem::path(LOCKSTEP_SOURCES) / path, std::ios::binary);
    REQUIRE(in);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// Every word of the README that looks like a path of the project exists.
std::string missing_paths(std::string const& readme) {
    std::string missing;
    for (std::size_t at = readme.find('`'); at != std::string::npos; at = readme.find('`', at + 1)) {
        std::size_t const end  = readme.find('`', at + 1);
        std::string const word = readme.substr(at + 1, end - at - 1);
        at                     = end;
        if (end == std::string::npos) break;
        bool const names_file = word.find_first_of(" <>(){}*=,") == std::string::npos && word.find('/') != std::string::npos &&
                                word.find('.', word.rfind('/')) != std::string::npos && word.front() != '-' && word.front() != '.';
        std::filesystem::path const root(LOCKSTEP_SOURCES);
        if (names_file && !std::filesystem::exists(root / word) && !std::filesystem::exists(root / "include/lockstep" / word) &&
            !std::filesystem::exists(root / "examples/train_gpt" / word))
            missing += word + " ";
    }
    return missing;
}

TEST_CASE("the program in the README is examples/minimal.cpp") {
    std::string const readme = text_of("README.md");
    CHECK(readme.find("```cpp\n" + text_of("examples/minimal.cpp") + "```") != std::string::npos);
    CHECK(readme.find("./run train") != std::string::npos);
    CHECK(readme.find("./run test") != std::string::npos);
}

TEST_CASE("files that the README names exist") {
    CHECK(missing_paths(text_of("README.md")) == "");
    CHECK(missing_paths("see `nn/no_such_file.hpp` and `nn/module.hpp`") == "nn/no_such_file.hpp ");
}

}  // namespace readme_test
