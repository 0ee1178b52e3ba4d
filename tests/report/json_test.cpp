#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lockstep/report/json.hpp"

namespace json_test {

using lockstep::report::JsonWriter;

TEST_CASE("numbers read back as the same value") {
    JsonWriter   object;
    double const values[] = {0, -0.0, 1, 0.1, 1.0 / 3, 1e-300, 5e-324, -1.7976931348623157e308, 2.74359570823723};
    for (std::size_t i = 0; i < std::size(values); ++i) object.add(std::to_string(i), values[i]);
    object.add("float", 0.1f).add("most", ~std::uint64_t{0}).add("least", std::numeric_limits<std::int64_t>::min());
    auto const read = nlohmann::json::parse(object.text());
    for (std::size_t i = 0; i < std::size(values); ++i) CHECK(read[std::to_string(i)].get<double>() == values[i]);
    CHECK(read["float"].get<float>() == 0.1f);
    CHECK(read["most"].get<std::uint64_t>() == ~std::uint64_t{0});
    CHECK(read["least"].get<std::int64_t>() == std::numeric_limits<std::int64_t>::min());
    CHECK(!object.nonfinite());
}

TEST_CASE("NaN and infinity become null and are remembered, absent numbers are null only") {
    JsonWriter absent;
    absent.add("x", std::optional<double>{});
    CHECK(absent.text() == R"({"x": null})");
    CHECK(!absent.nonfinite());
    for (double const value :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
        JsonWriter object;
        object.add("x", std::optional(value));
        CHECK(object.text() == R"({"x": null})");
        CHECK(object.nonfinite());
    }
}

TEST_CASE("strings with quotes, backslashes and control characters stay intact") {
    std::string text = "a \"quoted\" \\ path\n\t";
    for (char c = 0; c < 32; ++c) text += c;
    text += "\x7F \u00fc";
    CHECK(nlohmann::json::parse(JsonWriter{}.add_text(text, text).text())[text] == text);
}

TEST_CASE("booleans and nested objects") {
    CHECK(JsonWriter{}.text() == "{}");
    CHECK(JsonWriter{}.add("a", true).add("b", false).raw("c", JsonWriter{}.add("d", 1).text()).text() ==
          R"({"a": true, "b": false, "c": {"d": 1}})");
}

}  // namespace json_test
