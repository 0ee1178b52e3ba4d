#include <doctest/doctest.h>

#include "../folder.hpp"
#include "lockstep/io/json.hpp"

namespace json_test {

using namespace lockstep;
using namespace lockstep::io;
using test::mentions;
using test::refusal;

std::string said_of(std::string_view text) {
    return refusal([&] { parse_json(text, "x.json"); });
}

TEST_CASE("JSON that is legal is read") {
    Json const json = parse_json(" {\"a\": [1, {\"a\": \"\\u00e9\"}], \"b\": {\"a\": null}} \n", "x.json");
    CHECK(json.at("a").at(1).at("a") == "\xC3\xA9");
}

TEST_CASE("a key that occurs twice in one object is refused, however it is spelled") {
    CHECK(said_of("{\"a\":1,\"a\":1}") == "x.json: duplicate key \"a\": expected once, found twice");
    CHECK(said_of("{\"o\":[{\"a\":1,\"b\":2,\"\\u0061\":3}]}") == "x.json: duplicate key \"a\": expected once, found twice");
    CHECK(said_of("{\"a\":{\"a\":1},\"b\":{\"a\":1}}").empty());
}

TEST_CASE("text that is not JSON is refused in one line with its source") {
    for (std::string_view const text :
         {"", "{", "{\"a\":1} x", "{\"a\":1,}", "{'a':1}", "\"\xff\"", "[1e999]", "[NaN]", "[01]", "\"\n\"", "\"\\ud800\"", "\xff"}) {
        CAPTURE(text);
        std::string const said = said_of(text);
        CHECK(said.starts_with("x.json: expected JSON, found a "));
        CHECK(said.find('\n') == std::string::npos);
        CHECK_FALSE(mentions(said, "json.exception"));
    }
    CHECK(mentions(said_of("\xEF\xBB\xBF{}"), "byte order mark"));
    CHECK(said_of(std::string_view("{}\0garbage", 10)) == "x.json: expected JSON, found a NUL byte at byte 2");
    CHECK(said_of("\"" + std::string(100000, 'x')).size() < 500);
}

TEST_CASE("nesting is limited") {
    CHECK(said_of(std::string(64, '[') + std::string(64, ']')).empty());
    CHECK(said_of(std::string(65, '[') + std::string(65, ']')) == "x.json: JSON nested deeper than 64 levels: expected no more, found 65");
    CHECK(mentions(said_of(std::string(1000000, '[')), "nested deeper"));
}

TEST_CASE("values are taken by type, and messages name file, key, expected and found") {
    Json const       json = parse_json(R"({"n": 18446744073709551615, "big": 18446744073709551616, "f": 1.0, "neg": -1, "s": "x",
                                     "t": true, "null": null, "o": {"k": 2}, "e": 1e2})",
                                       "x.json");
    JsonObject const object(json, "x.json");
    CHECK(object.unsigned_integer("n") == 18446744073709551615u);
    CHECK(object.unsigned_integer("none", 7) == 7);
    CHECK(object.unsigned_integer("null", 7) == 7);
    CHECK(object.number("f") == 1.0);
    CHECK(object.number("neg") == -1.0);
    CHECK(object.string("s") == "x");
    CHECK(object.boolean("t"));
    CHECK(object.object("o").unsigned_integer("k") == 2);
    CHECK_FALSE(object.has("null"));

    for (auto const& value : {std::pair{"big", "18446744073709551616"},
                              {"f", "1.0"},
                              {"neg", "-1"},
                              {"s", "\"x\""},
                              {"t", "true"},
                              {"e", "100.0"},
                              {"null", "null"}}) {
        char const *const key = value.first, *const found = value.second;
        CAPTURE(key);
        std::string const said = refusal([&] { object.unsigned_integer(key); });
        if (std::string_view(key) == "big")
            CHECK(mentions(said, "x.json: \"big\" must be an unsigned integer, found 1.8446744"));
        else
            CHECK(said == sentence("x.json: \"", key, "\" must be an unsigned integer, found ", found));
    }
    CHECK(refusal([&] { object.string("n", "fallback"); }) == "x.json: \"n\" must be a string, found 18446744073709551615");
    CHECK(refusal([&] { object.boolean("s"); }) == "x.json: \"s\" must be true or false, found \"x\"");
    CHECK(refusal([&] { object.number("s"); }) == "x.json: \"s\" must be a number, found \"x\"");
    CHECK(refusal([&] { object.object("s"); }) == "x.json: \"s\" must be an object, found \"x\"");
    CHECK(refusal([&] { object.number("absent"); }) == "x.json: \"absent\" must be a number, found nothing");
    CHECK(refusal([] { JsonObject(Json::array(), "x.json"); }) == "x.json: expected a JSON object, found []");
}

}  // namespace json_test
