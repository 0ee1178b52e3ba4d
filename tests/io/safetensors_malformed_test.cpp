#include <doctest/doctest.h>

#include <vector>

#include "../folder.hpp"
#include "lockstep/io/safetensors.hpp"

namespace safetensors_malformed_test {

using namespace lockstep;
using test::Folder;

struct Malformed {
    std::string bytes;
    std::string says;  // besides the file's name
};

/// One tensor's entry with the fields as given.
std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return sentence(R"({"dtype":)", dtype, R"(,"shape":)", shape, R"(,"data_offsets":)", offsets, "}");
}
std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets, std::string_view data = "12345678") {
    return test::safetensors("{\"t\":" + entry(dtype, shape, offsets) + "}", data);
}
std::string two(std::string_view a, std::string_view b, std::size_t data = 8) {
    return test::safetensors("{\"a\":" + entry("\"F32\"", "[1]", a) + ",\"b\":" + entry("\"F32\"", "[1]", b) + "}", std::string(data, 'x'));
}
std::string length(std::uint64_t n, std::string_view rest = "{}") {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &n, 8);
    return bytes.append(rest);
}

std::vector<Malformed> cases() {
    std::string const good = entry("\"F32\"", "[1]", "[0,4]");
    return {
        // the length
        {"", "expected a safetensors header, found only 0 bytes"},
        {"1234567", "found only 7 bytes"},
        {length(100'000'001), "header too large: expected at most 100000000 bytes, found 100000001"},
        {length(~std::uint64_t{0}), "header too large: expected at most 100000000 bytes, found 18446744073709551615"},
        {length(3), "invalid header length: expected at most 2 bytes, found 3"},
        {length(100'000'000), "invalid header length: expected at most 2 bytes, found 100000000"},
        {length(0, ""), "header: expected JSON"},
        // the text
        {length(1, "\xff"), "header: expected JSON"},
        {test::safetensors("{\"\xff\":" + good + "}", "1234"), "ill-formed UTF-8"},
        {test::safetensors("{"), "header: expected JSON"},
        {test::safetensors("{}x"), "header: expected JSON"},
        {test::safetensors("\xEF\xBB\xBF{}"), "byte order mark"},
        {test::safetensors(std::string_view("{}\0\0", 4)), "NUL byte at byte 2"},
        {test::safetensors("[]"), "header must be a JSON object, found an array"},
        {test::safetensors("7"), "header must be a JSON object, found 7"},
        {test::safetensors("null"), "header must be a JSON object, found null"},
        {test::safetensors("{\"t\":{\"shape\":" + std::string(100000, '[')),
         "shape must hold unsigned integers below 2^64, found an array"},
        // metadata
        {test::safetensors(R"({"__metadata__":{"step":3}})"), "__metadata__ value of \"step\" must be a string, found 3"},
        {test::safetensors(R"({"__metadata__":{"x":{"y":"z"}}})"), "__metadata__ value of \"x\" must be a string, found an object"},
        {test::safetensors(R"({"__metadata__":null})"), "__metadata__ must be an object, found null"},
        {test::safetensors(R"({"__metadata__":[]})"), "__metadata__ must be an object, found an array"},
        {test::safetensors(R"({"__metadata__":{"a":"1","a":"1"}})"), "duplicate key \"a\" in __metadata__"},
        {test::safetensors(R"({"__metadata__":{},"__metadata__":{}})"), "duplicate key \"__metadata__\""},
        // names
        {test::safetensors("{\"t\":" + good + ",\"t\":" + good + "}", "1234"), "tensor \"t\": duplicate name"},
        {test::safetensors("{\"t\":" + good + ",\"\\u0074\":" + entry("\"F32\"", "[1]", "[4,8]") + "}", "12345678"),
         "tensor \"t\": duplicate name"},
        {test::safetensors("{\"a\\nb\":7}"), "tensor \"a\\x0ab\": must be an object, found 7"},
        // fields
        {test::safetensors(R"({"t":[]})"), "tensor \"t\": must be an object, found an array"},
        {test::safetensors(R"({"t":{"shape":[1],"data_offsets":[0,4]}})", "1234"), "tensor \"t\": missing dtype"},
        {test::safetensors(R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", "1234"), "tensor \"t\": missing shape"},
        {test::safetensors(R"({"t":{"dtype":"F32","shape":[1]}})", "1234"), "tensor \"t\": missing data_offsets"},
        {test::safetensors(R"({"t":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234"),
         "tensor \"t\": duplicate field \"dtype\""},
        {test::safetensors(R"({"t":{"dtype":"F32","shape":[1],"stride":[1],"data_offsets":[0,4]}})", "1234"),
         "tensor \"t\": expected no fields but dtype, shape and data_offsets, found \"stride\""},
        // types
        {one("\"I8\"", "[8]", "[0,8]"), "tensor \"t\": expected a supported dtype, found I8"},
        {one("\"F8_E4M3\"", "[8]", "[0,8]"), "tensor \"t\": expected a supported dtype, found F8_E4M3"},
        {one("\"F4\"", "[15]", "[0,8]"), "tensor \"t\": expected a supported dtype, found F4"},
        {one("\"f32\"", "[2]", "[0,8]"), "tensor \"t\": expected a supported dtype, found f32"},
        {one("\"F32\\u0000\"", "[2]", "[0,8]"), "tensor \"t\": expected a supported dtype, found F32\\x00"},
        {one("7", "[2]", "[0,8]"), "tensor \"t\": dtype must be a string, found 7"},
        {one("[\"F32\"]", "[2]", "[0,8]"), "tensor \"t\": dtype must be a string, found an array"},
        // numbers
        {one("\"F32\"", "2", "[0,8]"), "tensor \"t\": shape must be an array of unsigned integers, found 2"},
        {one("\"F32\"", "\"2\"", "[0,8]"), "tensor \"t\": shape must be an array of unsigned integers, found \"2\""},
        {one("\"F32\"", "{}", "[0,8]"), "tensor \"t\": shape must be an array of unsigned integers, found an object"},
        {one("\"F32\"", "[-2]", "[0,8]"), "tensor \"t\": shape must hold unsigned integers below 2^64, found -2"},
        {one("\"F32\"", "[2.0]", "[0,8]"), "tensor \"t\": shape must hold unsigned integers below 2^64, found 2.0"},
        {one("\"F32\"", "[2e0]", "[0,8]"), "tensor \"t\": shape must hold unsigned integers below 2^64, found 2e0"},
        {one("\"F32\"", "[18446744073709551616]", "[0,8]"), "found 18446744073709551616"},
        {one("\"F32\"", "[1e999]", "[0,8]"), "header: expected JSON"},
        {one("\"F32\"", "[true]", "[0,8]"), "tensor \"t\": shape must hold unsigned integers below 2^64, found true"},
        {one("\"F32\"", "[[2]]", "[0,8]"), "tensor \"t\": shape must hold unsigned integers below 2^64, found an array"},
        {one("\"F32\"", "[\"2\"]", "[0,8]"), "tensor \"t\": shape must hold unsigned integers below 2^64, found \"2\""},
        {one("\"F32\"", "[2]", "[0,-8]"), "tensor \"t\": data_offsets must hold unsigned integers below 2^64, found -8"},
        {one("\"F32\"", "[2]", "[8]"), "tensor \"t\": data_offsets must be two numbers, found 1"},
        {one("\"F32\"", "[2]", "[]"), "tensor \"t\": data_offsets must be two numbers, found 0"},
        {one("\"F32\"", "[2]", "[0,8,8]"), "tensor \"t\": data_offsets must be two numbers, found more"},
        {one("\"F32\"", "[2]", "null"), "tensor \"t\": data_offsets must be an array of unsigned integers, found null"},
        {one(
             "\"F32\"",
             "[1" +
                 [] {
                     std::string s;
                     for (int i = 0; i < 64; ++i) s += ",1";
                     return s;
                 }() +
                 "]",
             "[0,4]"),
         "tensor \"t\": shape must have at most 64 dimensions"},
        // places
        {one("\"F32\"", "[1]", "[4,8]"), "tensor \"t\": invalid data_offsets: must begin at 0 and not end before, found [4, 8]"},
        {one("\"F32\"", "[1]", "[8,4]"), "tensor \"t\": invalid data_offsets"},
        {one("\"F32\"", "[0]", "[0,18446744073709551615]"),
         "tensor \"t\": shape [0] of F32 needs 0 bytes, found data_offsets of 18446744073709551615"},
        {two("[0,4]", "[5,9]", 9), "tensor \"b\": invalid data_offsets: must begin at 4 and not end before, found [5, 9]"},  // hole
        {two("[0,4]", "[3,7]", 7), "tensor \"b\": invalid data_offsets: must begin at 4 and not end before, found [3, 7]"},  // overlap
        {two("[0,4]", "[0,4]", 4), "tensor \"b\": invalid data_offsets: must begin at 4 and not end before, found [0, 4]"},  // alias
        {two("[4,8]", "[4,8]"), "tensor \"a\": invalid data_offsets: must begin at 0"},
        // sizes
        {one("\"F32\"", "[3]", "[0,8]"), "tensor \"t\": shape [3] of F32 needs 12 bytes, found data_offsets of 8"},
        {one("\"F16\"", "[]", "[0,8]"), "tensor \"t\": shape [] of F16 needs 2 bytes, found data_offsets of 8"},
        {one("\"I32\"", "[2,18446744073709551614]", "[0,8]"), "tensor \"t\": size of shape [2,18446744073709551614] of I32 overflows"},
        {one("\"I32\"", "[2,9223372036854775807]", "[0,8]"), "tensor \"t\": size of shape [2,9223372036854775807] of I32 overflows"},
        {one("\"F64\"", "[2305843009213693953]", "[0,8]"), "overflows"},
        {one("\"U8\"", "[4294967296,4294967296,0]", "[0,0]", ""), "overflows"},
        {one("\"F32\"", "[2]", "[0,8]", "1234567"), "expected 8 bytes of data, found 7 (truncated); last tensor \"t\""},
        {one("\"F32\"", "[2]", "[0,8]", "123456789"), "expected 8 bytes of data, found 9 (trailing bytes); last tensor \"t\""},
        {test::safetensors("{}", "x"), "expected 0 bytes of data, found 1 (trailing bytes)"},
    };
}

TEST_CASE("malformed files are refused with a line that names the file and the fault") {
    Folder const folder;
    std::size_t  number = 0;
    for (auto const& [bytes, says] : cases()) {
        std::string const name     = sentence("case", number++, ".safetensors");
        auto const        path     = folder.write(name, bytes);
        std::string const said     = test::refusal([&] { io::SafetensorsFile{path}; });
        auto const&       expected = says;
        CAPTURE(name);
        CAPTURE(said);
        CAPTURE(expected);
        CHECK(said.starts_with(path.string() + ": "));
        CHECK(said.size() < 1000);
        CHECK(said.find('\n') == std::string::npos);
        CHECK(test::mentions(said, expected));
    }
    CHECK(number > 60);
}

TEST_CASE("a header cut or changed at any byte never reads past the file or ends in another exception") {
    Folder const      folder;
    std::string const good = two("[0,4]", "[4,8]");
    REQUIRE(test::refusal([&] { io::SafetensorsFile{folder.write("x", good)}; }).empty());
    std::size_t refused = 0;
    for (std::size_t at = 0; at < good.size(); ++at) {
        refused += !test::refusal([&] { io::SafetensorsFile{folder.write("x", good.substr(0, at))}; }).empty();
        for (char const c : {'\0', '"', '}', '9', '\xff', ' '}) {
            std::string changed = good;
            changed[at]         = c;
            test::refusal([&] { io::SafetensorsFile{folder.write("x", changed)}; });
        }
    }
    CHECK(refused == good.size());
}

}  // namespace safetensors_malformed_test
