// The table of right values has a named case for every row: "TRAPS <row>: ...".

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace traps_test {

constexpr int rows = 30;
// In two parts, so that this file holds no such name itself.
std::string const mark = std::string("TRA") + "PS ";

/// The rows whose names stand at the beginning of a case, or behind another row's name there.
std::set<int> rows_named(std::string const& source) {
    std::set<int> found;
    for (std::size_t at = source.find("TEST_CASE"); at != std::string::npos; at = source.find("TEST_CASE", at + 1)) {
        std::size_t name = source.find('"', at) + 1;
        while (name != 0 && source.compare(name, mark.size(), mark) == 0) {
            std::size_t const colon = source.find(": ", name);
            if (colon == std::string::npos) break;
            std::string const number = source.substr(name + mark.size(), colon - name - mark.size());
            if (!number.empty() && number.size() < 3 && number.find_first_not_of("0123456789") == std::string::npos)
                found.insert(std::stoi(number));
            name = colon + 2;
        }
    }
    return found;
}

TEST_CASE("every row of the table of right values is a named case") {
    std::set<int> found;
    for (auto const& entry : std::filesystem::recursive_directory_iterator(LOCKSTEP_TESTS))
        if (entry.path().filename().string().ends_with("_test.cpp")) {
            std::ifstream in(entry.path(), std::ios::binary);
            found.merge(rows_named({std::istreambuf_iterator<char>(in), {}}));
        }
    for (int row = 1; row <= rows; ++row) CHECK_MESSAGE(found.contains(row), row);
    CHECK(found.size() == rows);
}

TEST_CASE("names are found where they begin a case, and in one spelling only") {
    CHECK(rows_named("TEST_CASE(\"" + mark + "7: a\") {}") == std::set{7});
    CHECK(rows_named("TEST_CASE_TEMPLATE(\"" + mark + "11: " + mark + "12: a\", T, int) {}") == std::set{11, 12});
    CHECK(rows_named("TEST_CASE(\"a\") {}  // \"" + mark + "7: a\"").empty());
    CHECK(rows_named("TEST_CASE(\"a " + mark + "7: b\") {}").empty());
    CHECK(rows_named("TEST_CASE(\"trap 7: a\") {}").empty());
    CHECK(rows_named("TEST_CASE(\"" + mark + "7 and 8: a\") {}").empty());
}

}  // namespace traps_test
