// What a header says where it refuses a type is what a compile-fail test expects.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace sentences_test {

namespace fs = std::filesystem;

std::string contents(fs::path const& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// The messages of all static_asserts that begin with "lockstep: ", their parts joined.
std::vector<std::string> authored_sentences(std::string const& source) {
    std::vector<std::string> found;
    for (std::size_t at = source.find("static_assert("); at != std::string::npos; at = source.find("static_assert(", at + 1)) {
        std::size_t const end     = source.find(");", at);
        std::string       message = source.substr(at, end - at), sentence;
        for (std::size_t open = message.find('"'); open != std::string::npos;) {
            std::size_t const close = message.find('"', open + 1);
            sentence += message.substr(open + 1, close - open - 1);
            open = close == std::string::npos ? close : message.find('"', close + 1);
        }
        if (sentence.starts_with("lockstep: ")) found.push_back(sentence);
    }
    return found;
}

TEST_CASE("every authored sentence is expected by a compile-fail test, but for those about the machine") {
    std::string lists;
    for (auto const& entry : fs::recursive_directory_iterator(LOCKSTEP_TESTS))
        if (entry.path().filename() == "CMakeLists.txt") lists += contents(entry.path());
    std::size_t sentences = 0;
    for (auto const& entry : fs::recursive_directory_iterator(LOCKSTEP_HEADERS)) {
        if (entry.path().extension() != ".hpp") continue;
        for (std::string const& sentence : authored_sentences(contents(entry.path()))) {
            if (sentence.find("little-endian") != std::string::npos) continue;
            ++sentences;
            CHECK_MESSAGE(lists.find(sentence) != std::string::npos, entry.path().string(), ": ", sentence);
        }
    }
    CHECK(sentences >= 20);
}

TEST_CASE("sentences are found whole, and only those of the library") {
    using Sentences = std::vector<std::string>;
    CHECK(authored_sentences("static_assert(a<b>(),\n    \"lockstep: one \"\n    \"two\");") == Sentences{"lockstep: one two"});
    CHECK(authored_sentences("static_assert(a); static_assert(b, \"other\");").empty());
}

}  // namespace sentences_test
