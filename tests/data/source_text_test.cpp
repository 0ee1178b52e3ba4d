#include <doctest/doctest.h>

#include <unistd.h>

#include <string>
#include <vector>

#include "../folder.hpp"
#include "lockstep/data/source_text.hpp"
#include "lockstep/data/tokenizer.hpp"

namespace source_text_test {

using namespace lockstep::data;
using namespace lockstep::test;

std::string text_of(Tokens const& tokens) {
    std::vector<std::int32_t> ids(tokens.size());
    tokens.copy(0, ids);
    return ByteTokenizer::decode(ids);
}

TEST_CASE("sources are taken from the known folders and endings, in the order of their paths") {
    Folder const folder;
    folder.write("tests/z.cpp", "8");
    folder.write("include/b/b.hpp", "6");
    folder.write("include/b.hpp", "5");
    folder.write("README.md", "2");
    folder.write("CMakeLists.txt", "1");
    folder.write("bench/a.md", "3");
    folder.write("cmake/x.cmake", "4");
    folder.write("tests/CMakeLists.txt", "7");
    folder.write("tests/picture.png", "no");
    folder.write("build/generated.cpp", "no");
    folder.write("NOTES.md", "no");
    std::filesystem::create_directory(folder / "include" / "folder.hpp");
    CHECK(text_of(source_text(folder.path())) == "12345678");
    CHECK(text_of(source_text(folder / "include" / "..")) == "12345678");
}

TEST_CASE("a folder that cannot be read is an error that names it, and a link that leads nowhere is no source") {
    Folder const folder;
    folder.write("include/a.hpp", "1");
    folder.write("include/closed/b.hpp", "2");
    std::filesystem::create_symlink("circle.hpp", folder / "include/circle.hpp");
    std::filesystem::create_symlink("nowhere.hpp", folder / "include/dangling.hpp");
    CHECK(text_of(source_text(folder.path())) == "12");
    std::filesystem::permissions(folder / "include/closed", std::filesystem::perms::none);
    bool const root = ::geteuid() == 0;  // who may read everything
    if (root) REQUIRE(::seteuid(65534) == 0);
    std::string const said = refusal([&] { source_text(folder.path()); });
    if (root) REQUIRE(::seteuid(0) == 0);
    std::filesystem::permissions(folder / "include/closed", std::filesystem::perms::owner_all);
    CHECK_MESSAGE(mentions(said, "include/closed\": Permission denied"), said);
    CHECK(mentions(said, "expected folders that can be read, found"));
}

TEST_CASE("a missing or empty root is an error that names it") {
    Folder const folder;
    CHECK(mentions(refusal([&] { source_text(folder / "none"); }), "expected the project's root folder at"));
    CHECK(mentions(refusal([&] { source_text(folder.path()); }), "expected headers and sources below"));
    folder.write("README.md", "");
    CHECK(mentions(refusal([&] { source_text(folder.path()); }), "expected text"));
}

}  // namespace source_text_test
