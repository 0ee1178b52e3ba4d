#include <doctest/doctest.h>

#include <sys/resource.h>
#include <array>
#include <bit>
#include <csignal>
#include <vector>

#include "../folder.hpp"
#include "lockstep/io/safetensors.hpp"
#include "lockstep/io/safetensors_writer.hpp"

namespace safetensors_writer_test {

using namespace lockstep;
using namespace lockstep::io;
using test::Folder;
using test::mentions;
using test::refusal;

TEST_CASE("the bytes are those of the reference writer: widest type first, then by name, blanks up to a multiple of 8") {
    Folder const      folder;
    SafetensorsWriter writer(
        folder / "x",
        {{"h", Dtype::f16, {1}}, {"b", Dtype::f32, {1, 2}}, {"u", Dtype::u8, {3}}, {"a", Dtype::f32, {}}, {"i", Dtype::i64, {0}}});
    writer.append("b", std::array{1.f, 2.f});
    writer.append("h", std::array{1.f});
    writer.append_exact<std::uint8_t>("u", std::array<std::uint8_t, 3>{1, 2, 3});
    writer.append("a", std::array{-1.f});
    writer.commit();
    std::string header = R"({"__metadata__":{"format":"pt"},"i":{"dtype":"I64","shape":[0],"data_offsets":[0,0]},)"
                         R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]},)"
                         R"("h":{"dtype":"F16","shape":[1],"data_offsets":[12,14]},"u":{"dtype":"U8","shape":[3],"data_offsets":[14,17]}})";
    REQUIRE(header.size() % 8 != 0);
    header.resize((header.size() + 7) / 8 * 8, ' ');
    CHECK(test::read_all(folder / "x") == test::safetensors(header, std::string("\0\0\x80\xbf\0\0\x80\x3f\0\0\0\x40\0\x3c\1\2\3", 17)));
    CHECK(folder.entries() == 1);
}

TEST_CASE("data begin at a multiple of 8 whatever the length of the names, and every tensor is aligned") {
    Folder const folder;
    for (std::size_t length = 1; length <= 9; ++length) {
        SafetensorsWriter writer(folder / "x", {{std::string(length, 'n'), Dtype::u8, {1}}, {"d", Dtype::f64, {1}}}, {{"step", "12"}});
        writer.append("d", std::array{0.1f});
        writer.append_exact<std::uint8_t>(std::string(length, 'n'), std::array<std::uint8_t, 1>{1});
        writer.commit();
        std::string const bytes = test::read_all(folder / "x");
        std::uint64_t     n     = 0;
        std::memcpy(&n, bytes.data(), 8);
        CHECK(n % 8 == 0);
        CHECK(bytes[8] == '{');
        SafetensorsFile const file(folder / "x");
        CHECK(file.metadata() == Metadata{{"format", "pt"}, {"step", "12"}});
        for (TensorInfo const& tensor : file.tensors()) CHECK(tensor.begin % io::bytes(tensor.dtype) == 0);
    }
}

TEST_CASE("bf16 and f16 round to nearest even, NaN stays NaN, and F32 keeps every bit") {
    Folder const folder;
    std::array   values{1.00390625f, 1.01171875f, 3.3961776e38f, std::bit_cast<float>(0x7FFFFFFFu), -0.0f, 65519.9f, 65520.0f, 0x1p-25f};
    {
        SafetensorsWriter writer(folder / "x", {{"f32", Dtype::f32, {8}}, {"bf16", Dtype::bf16, {8}}, {"f16", Dtype::f16, {8}}});
        for (char const* name : {"bf16", "f32", "f16"}) {
            writer.append(name, std::span(values).first(3));  // in pieces
            writer.append(name, std::span(values).subspan(3));
        }
        writer.commit();
    }
    SafetensorsFile const        file(folder / "x");
    std::array<std::uint16_t, 8> bits{};
    std::array<float, 8>         back{};
    file.read_exact<precision::bfloat16>("bf16", std::span(reinterpret_cast<precision::bfloat16*>(bits.data()), 8));
    CHECK(bits == std::array<std::uint16_t, 8>{0x3F80, 0x3F82, 0x7F80, 0x7FFF, 0x8000, 0x4780, 0x4780, 0x3300});
    file.read_exact<precision::float16>("f16", std::span(reinterpret_cast<precision::float16*>(bits.data()), 8));
    CHECK(bits == std::array<std::uint16_t, 8>{0x3C04, 0x3C0C, 0x7C00, 0x7FFF, 0x8000, 0x7BFF, 0x7C00, 0x0000});
    file.read("f32", back);
    CHECK(std::memcmp(back.data(), values.data(), sizeof(values)) == 0);
}

TEST_CASE("a large tensor in pieces comes back") {
    Folder const       folder;
    std::vector<float> values(1'000'003), back(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251);  // exact in bf16
    for (Dtype const dtype : {Dtype::bf16, Dtype::f16, Dtype::f32, Dtype::f64}) {
        SafetensorsWriter writer(folder / "x", {{"t", dtype, {values.size()}}});
        for (std::size_t i = 0; i < values.size(); i += 77777)
            writer.append("t", std::span(values).subspan(i, std::min<std::size_t>(77777, values.size() - i)));
        writer.commit();
        SafetensorsFile(folder / "x").read("t", back);
        CHECK(back == values);
    }
}

TEST_CASE("names of any text survive, and text that is not UTF-8 is refused") {
    Folder const      folder;
    std::string const name = "a\"\\\n\x01\xC3\xA9/..";
    SafetensorsWriter writer(folder / "x", {{name, Dtype::u8, {0}}});
    writer.commit();
    CHECK(SafetensorsFile(folder / "x").find(name) != nullptr);
    CHECK(mentions(refusal([&] {
                       SafetensorsWriter(folder / "y", {{"\xff", Dtype::u8, {0}}});
                   }),
                   "y: a name or a metadata value is not UTF-8"));
    CHECK(mentions(refusal([&] { SafetensorsWriter(folder / "y", {}, {{"k", "\xff"}}); }), "not UTF-8"));
    CHECK(folder.entries() == 1);
}

TEST_CASE("what cannot be written is refused and leaves nothing") {
    Folder const folder;
    CHECK(mentions(refusal([&] {
                       SafetensorsWriter(folder / "y", {{"t", Dtype::u8, {1}}, {"t", Dtype::f32, {1}}});
                   }),
                   "y: tensor \"t\": duplicate name"));
    CHECK(mentions(refusal([&] {
                       SafetensorsWriter(folder / "y", {{"t", Dtype::f32, {1u << 31, 1u << 31}}});
                   }),
                   "y: tensor \"t\" of shape [2147483648,2147483648] cannot be written"));
    CHECK(mentions(refusal([&] { SafetensorsWriter(folder / "y", {{"__metadata__", Dtype::f32, {1}}}); }), "cannot be written"));
    CHECK(mentions(refusal([&] {
                       SafetensorsWriter(folder / "y", {{std::string(100'000'000, 'n'), Dtype::f32, {1}}});
                   }),
                   "y: header too large"));
    {
        SafetensorsWriter writer(folder / "y", {{"t", Dtype::f32, {2}}, {"i", Dtype::i32, {1}}});
        CHECK(mentions(refusal([&] { writer.append("s", std::array{1.f}); }), "y: tensor \"s\" is not part of this file"));
        CHECK(mentions(refusal([&] { writer.append("i", std::array{1.f}); }),
                       "tensor \"i\": dtype must be F32, BF16, F16 or F64 to take floats, found I32"));
        CHECK(mentions(refusal([&] { writer.append_exact<std::int64_t>("i", std::array<std::int64_t, 1>{}); }),
                       "dtype must be I64, found I32"));
        CHECK(mentions(refusal([&] {
                           writer.append("t", std::array{1.f, 2.f, 3.f});
                       }),
                       "tensor \"t\": expected at most 8 more bytes, found 12"));
        writer.append("t", std::array{1.f});
        CHECK(mentions(refusal([&] { writer.commit(); }), "tensor \"t\": expected 8 bytes to be written, found 4"));
    }
    CHECK(folder.entries() == 0);
}

TEST_CASE("a disk that is full in the middle leaves the old file and nothing else") {
    Folder const folder;
    folder.write("x", "old");
    ::rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    auto const     handler = std::signal(SIGXFSZ, SIG_IGN);
    ::rlimit const small{100'000, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    std::string const said = refusal([&] {
        SafetensorsWriter writer(folder / "x", {{"t", Dtype::f32, {100'000}}});
        writer.append("t", std::vector<float>(100'000));
        writer.commit();
    });
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    CHECK(mentions(said, (folder / "x").string() + ": writing failed: File too large"));
    CHECK(test::read_all(folder / "x") == "old");
    CHECK(folder.entries() == 1);
}

}  // namespace safetensors_writer_test
