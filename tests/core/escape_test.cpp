#include "lockstep/core/escape.hpp"

#include <doctest/doctest.h>

namespace escape_test {

using lockstep::escaped;
using lockstep::Keep;

TEST_CASE("text in any script passes as it is") {
    for (char const* text : {"", "plain", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x99\x82", "\xED\x9F\xBF \xEE\x80\x80 \xF4\x8F\xBF\xBF"})
        CHECK(escaped(text) == text);
}

TEST_CASE("what moves the cursor or turns the line round is escaped") {
    CHECK(escaped("a\x1B[2Jb\x7F") == "a\\x1b[2Jb\\x7f");
    CHECK(escaped("\xC2\x9B"
                  "31m\xC2\x85") == "\\xc2\\x9b31m\\xc2\\x85");  // C1
    CHECK(escaped("\xE2\x80\xA8 \xE2\x80\xA9 \xE2\x80\xAE") ==
          "\\xe2\\x80\\xa8 \\xe2\\x80\\xa9 \\xe2\\x80\\xae");                                          // U+2028, U+2029, U+202E
    CHECK(escaped("\xE2\x81\xA6\xD8\x9C\xEF\xBB\xBF") == "\\xe2\\x81\\xa6\\xd8\\x9c\\xef\\xbb\\xbf");  // U+2066, U+061C, U+FEFF
    CHECK(escaped(std::string_view("\0", 1)) == "\\x00");
}

TEST_CASE("bytes that are no UTF-8 are escaped one by one, and the next character is read anew") {
    CHECK(escaped("\xFFz") == "\\xffz");
    CHECK(escaped("\xC0\x80") == "\\xc0\\x80");                    // overlong
    CHECK(escaped("\xE0\x9F\xBF") == "\\xe0\\x9f\\xbf");           // overlong
    CHECK(escaped("\xF0\x8F\xBF\xBF") == "\\xf0\\x8f\\xbf\\xbf");  // overlong
    CHECK(escaped("\xED\xA0\x80") == "\\xed\\xa0\\x80");           // a surrogate
    CHECK(escaped("\xF4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
    CHECK(escaped("\xE2\x82") == "\\xe2\\x82");                    // cut short
    CHECK(escaped("\xE2\x82\xC3\xA4") == "\\xe2\\x82\xC3\xA4");
}

TEST_CASE("ends of lines and tabs stay where they are wanted") {
    CHECK(escaped("a\n\tb\r") == "a\\x0a\\x09b\\x0d");
    CHECK(escaped("a\n\tb\r", Keep::lines) == "a\n\tb\\x0d");
}

}  // namespace escape_test
