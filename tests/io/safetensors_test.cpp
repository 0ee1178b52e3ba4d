#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "../folder.hpp"
#include "lockstep/io/safetensors.hpp"

namespace safetensors_test {

using namespace lockstep;
using namespace lockstep::io;
using test::Folder;
using test::mentions;
using test::refusal;

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    std::memcpy(bytes.data(), values.begin(), bytes.size());
    return bytes;
}

TEST_CASE("files without tensors are legal, with blanks around the object and with metadata") {
    Folder const folder;
    for (char const* header : {"{}\r \t\n", "\t {}", "{}      "}) {
        SafetensorsFile const file(folder.write("a", test::safetensors(header)));
        CHECK(file.tensors().empty());
    }
    SafetensorsFile const file(folder.write("c", test::safetensors(R"({"__metadata__":{"format":"pt","n":"1"}})")));
    CHECK(file.tensors().empty());
    CHECK(file.metadata() == Metadata{{"format", "pt"}, {"n", "1"}});
}

TEST_CASE("empty tensors and scalars are legal") {
    Folder const          folder;
    SafetensorsFile const empty(folder.write("e", test::safetensors(R"({"t":{"dtype":"I32","shape":[2,0],"data_offsets":[0,0]}})")));
    CHECK(empty.tensor("t").elements() == 0);
    SafetensorsFile const scalar(folder.write("s", test::safetensors(R"({"t":{"dtype":"F32","shape":[],"data_offsets":[0,4]},
        "z":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}})",
                                                                     bytes_of({2.5f}))));
    float                 value = 0;
    scalar.read("t", std::span(&value, 1));
    CHECK(value == 2.5f);
    scalar.read_rows("z", 0, std::span<float>());
}

TEST_CASE("tensors are found by name, whatever their order in header and data") {
    Folder const          folder;
    auto const            path = folder.write("x", test::safetensors(R"({"b":{"shape":[2],"data_offsets":[4,12],"dtype":"F32"},
        "a":{"dtype":"F32","shape":[1],"data_offsets":[12,16]},"\u0063":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                                                                     "\1\2\3\4" + bytes_of({1.f, 2.f, 3.f})));
    SafetensorsFile const file(path);
    REQUIRE(file.tensors().size() == 3);
    CHECK(file.tensors()[0].name == "a");
    CHECK(file.find("c") != nullptr);
    CHECK(file.find("d") == nullptr);
    CHECK(refusal([&] { static_cast<void>(file.tensor("d")); }) == path.string() + ": tensor \"d\": expected in the file, not found");
    std::array<float, 2> b{};
    file.read("b", b);
    CHECK(b == std::array{1.f, 2.f});
    std::array<std::uint8_t, 4> c{};
    file.read_exact<std::uint8_t>("c", c);
    CHECK(c[3] == 4);
}

TEST_CASE("every floating type becomes float, from places that are not aligned") {
    Folder const folder;
    std::string  data(1, '\7');
    data += bytes_of<double>({1.0 + 0x1p-30, -1e300, 0.1}) + bytes_of<std::uint16_t>({0x3F80, 0x7F80, 0x0001, 0x8000}) +
            bytes_of<std::uint16_t>({0x3C00, 0x0001, 0x7C00, 0xFBFF}) + bytes_of<std::uint32_t>({0x7FA12345u, 0x80000001u});
    SafetensorsFile const file(folder.write("x", test::safetensors(R"({"p":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]},
        "f64":{"dtype":"F64","shape":[3],"data_offsets":[1,25]},"bf16":{"dtype":"BF16","shape":[4],"data_offsets":[25,33]},
        "f16":{"dtype":"F16","shape":[2,2],"data_offsets":[33,41]},"f32":{"dtype":"F32","shape":[2],"data_offsets":[41,49]}})",
                                                                   data)));
    std::array<float, 3>  f64{};
    file.read("f64", f64);
    CHECK(f64[0] == 1.0f);
    CHECK(f64[1] == -INFINITY);
    CHECK(f64[2] == 0.1f);
    std::array<float, 4> half{};
    file.read("bf16", half);
    CHECK(half == std::array{1.0f, INFINITY, std::bit_cast<float>(0x00010000u), -0.0f});
    CHECK(std::signbit(half[3]));
    file.read("f16", half);
    CHECK(half == std::array{1.0f, 0x1p-24f, INFINITY, -65504.0f});
    std::array<std::uint32_t, 2> bits{};  // a signalling NaN keeps its payload
    file.read("f32", std::span(reinterpret_cast<float*>(bits.data()), 2));
    CHECK(bits == std::array{0x7FA12345u, 0x80000001u});
}

TEST_CASE("rows and ranges are read alone, across the pieces of a conversion") {
    Folder const                     folder;
    constexpr std::uint32_t          rows = 5000, columns = 7;
    std::vector<precision::bfloat16> values(rows * columns);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = precision::bfloat16::from_bits(static_cast<std::uint16_t>(i));
    std::string const     data(reinterpret_cast<char const*>(values.data()), values.size() * 2);
    SafetensorsFile const file(
        folder.write("x", test::safetensors(R"({"t":{"dtype":"BF16","shape":[5000,7],"data_offsets":[0,70000]}})", data)));
    std::vector<float> out(3000 * columns);
    file.read_rows("t", 1999, out);
    bool same = true;
    for (std::size_t i = 0; i < out.size(); ++i) {
        float const expected = values[1999 * columns + i];
        same                 = same && std::memcmp(&out[i], &expected, 4) == 0;
    }
    CHECK(same);
    file.read_range(file.tensor("t"), 34999, std::span(out).first(1));
    CHECK(out[0] == static_cast<float>(values[34999]));
    CHECK(mentions(refusal([&] { file.read_range(file.tensor("t"), 34999, std::span(out).first(2)); }),
                   "expected 2 elements from element 34999, found 35000 in all"));
    CHECK(mentions(refusal([&] { file.read_rows("t", 4999, std::span(out).first(14)); }), "tensor \"t\": expected 14 elements"));
    CHECK(mentions(refusal([&] { file.read_rows("t", 5001, std::span(out).first(7)); }), "expected at least 5001 rows, found 5000"));
    CHECK(mentions(refusal([&] { file.read_rows("t", 0, std::span(out).first(8)); }), "expected rows that divide 8 elements, found 7"));
    CHECK(mentions(refusal([&] { file.read("t", out); }), "expected 21000 elements, found 35000"));
}

TEST_CASE("a type that is not asked for is refused") {
    Folder const          folder;
    SafetensorsFile const file(
        folder.write("x", test::safetensors(R"({"t":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", bytes_of({-7}))));
    float        value  = 0;
    std::int32_t number = 0;
    CHECK(mentions(refusal([&] { file.read("t", std::span(&value, 1)); }), "tensor \"t\": dtype must be F32, BF16, F16 or F64, found I32"));
    CHECK(mentions(refusal([&] { file.read_exact<float>("t", std::span(&value, 1)); }), "dtype must be F32, found I32"));
    file.read_exact<std::int32_t>("t", std::span(&number, 1));
    CHECK(number == -7);
}

TEST_CASE("a file may be larger than 4 GiB") {
    Folder const folder;
    auto const   path = folder.write("x", test::safetensors(R"({"t":{"dtype":"F32","shape":[1200000000],"data_offsets":[0,4800000000]}})"));
    auto const   data = std::filesystem::file_size(path);
    std::filesystem::resize_file(path, data + 4800000000u);  // a hole: takes no space
    {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(data + 4800000000u - 4));
        file << bytes_of({3.25f});
    }
    SafetensorsFile const file(path);
    float                 value = 0;
    file.read_range(file.tensor("t"), 1199999999, std::span(&value, 1));
    CHECK(value == 3.25f);
}

}  // namespace safetensors_test
