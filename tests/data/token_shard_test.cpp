#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../folder.hpp"
#include "lockstep/data/token_shard.hpp"
#include "lockstep/data/tokens.hpp"
#include "shard_file.hpp"

namespace token_shard_test {

using namespace lockstep::data;
using namespace lockstep::test;

std::string big_endian_header(std::int64_t magic) {
    std::string text = shard_header_of(magic, 1, 4);
    std::swap(text[0], text[3]);
    std::swap(text[1], text[2]);
    return text;
}

std::string body(std::size_t bytes) { return std::string(bytes, '\1'); }

constexpr std::int64_t gpt2 = 20240520, llama = 20240801;

struct Malformed {
    std::string name, content;
    std::string sentence;  // a part of the error
};

std::vector<Malformed> malformed_files() {
    std::vector<Malformed> files{
        {"empty", "", "found an empty file"},
        {"one byte", body(1), "header of 1024 bytes, found a file of 1 "},
        {"magic only", little_endian(gpt2, 4), "found a file of 4 bytes (truncated)"},
        {"magic and version", little_endian(gpt2, 4) + little_endian(1, 4), "found a file of 8 bytes (truncated)"},
        {"half a header", shard_header_of(gpt2, 1, 4).substr(0, 512), "found a file of 512 bytes (truncated)"},
        {"header less one byte", shard_header_of(gpt2, 1, 4).substr(0, 1023), "found a file of 1023 bytes (truncated)"},
        {"big-endian uint16", big_endian_header(gpt2) + body(8), "the magic 20240520 byte-swapped"},
        {"big-endian uint32", big_endian_header(llama) + body(16), "the magic 20240801 byte-swapped"},
        {"evaluation file", shard_header_of(20240522, 1, 4) + body(8), "(multiple-choice evaluation)"},
        {"GPT-2 weights", shard_header_of(20240326, 3, 4) + body(8), "(GPT-2 weights)"},
        {"Llama-3 weights", shard_header_of(20240803, 3, 4) + body(8), "(Llama-3 weights)"},
        {"debug state", shard_header_of(20240327, 2, 4) + body(8), "(debug state)"},
        {"optimizer state", shard_header_of(20240527, 1, 4) + body(8), "(optimizer state)"},
        {"tokenizer", shard_header_of(20240328, 2, 4) + body(8), "(tokenizer)"},
        {"zero magic", shard_header_of(0, 1, 4) + body(8), "found 0"},
        {"negative magic", shard_header_of(-1, 1, 4) + body(8), "found -1"},
        {"magic off by one", shard_header_of(gpt2 + 1, 1, 4) + body(8), "found 20240521"},
        {"text named .bin", std::string(2000, 'a'), "expected the magic 20240520 (uint16) or 20240801 (uint32), found 1633771873"},
        {"headerless uint16", body(4096), "found 16843009"},
    };
    for (int const version : {0, 2, 3, 7, -1, 256})
        files.push_back({"uint16 version " + std::to_string(version), shard_header_of(gpt2, version, 4) + body(8),
                         "expected version 1 with the magic 20240520, found " + std::to_string(version)});
    for (int const version : {0, 1, 6, 8, -7})
        files.push_back({"uint32 version " + std::to_string(version), shard_header_of(llama, version, 4) + body(16),
                         "expected version 7 with the magic 20240801, found " + std::to_string(version)});
    for (std::int64_t const count : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{-4}, -(std::int64_t{1} << 31)}) {
        files.push_back({"uint16 count " + std::to_string(count), shard_header_of(gpt2, 1, count) + body(8),
                         "count above 0, found " + std::to_string(count)});
        files.push_back({"uint32 count " + std::to_string(count), shard_header_of(llama, 7, count) + body(16),
                         "count above 0, found " + std::to_string(count)});
    }
    struct Size {
        std::int64_t magic, version, count;
        std::size_t  bytes;
        std::string  sentence;
    };
    for (Size const& size : {Size{gpt2, 1, 4, 0, "truncated: expected 1032 bytes for 4 tokens, found 1024"},
                             Size{gpt2, 1, 4, 7, "truncated: expected 1032 bytes for 4 tokens, found 1031"},
                             Size{gpt2, 1, 5, 8, "truncated: expected 1034 bytes for 5 tokens, found 1032"},
                             Size{gpt2, 1, 4, 9, "trailing bytes: expected 1032 bytes for 4 tokens, found 1033"},
                             Size{gpt2, 1, 4, 10, "trailing bytes: expected 1032 bytes for 4 tokens, found 1034"},
                             Size{gpt2, 1, 4, 16, "trailing bytes: expected 1032 bytes for 4 tokens, found 1040"},
                             Size{gpt2, 1, 2147483647, 8, "truncated: expected 4294968318 bytes for 2147483647 tokens, found 1032"},
                             Size{llama, 7, 4, 8, "truncated: expected 1040 bytes for 4 tokens, found 1032"},
                             Size{llama, 7, 4, 15, "truncated: expected 1040 bytes for 4 tokens, found 1039"},
                             Size{llama, 7, 4, 17, "trailing bytes: expected 1040 bytes for 4 tokens, found 1041"},
                             Size{llama, 7, 2147483647, 16, "truncated: expected 8589935612 bytes for 2147483647 tokens, found 1040"}})
        files.push_back({"size", shard_header_of(size.magic, size.version, size.count) + body(size.bytes), size.sentence});
    return files;
}

TEST_CASE("a malformed shard is refused by a sentence that names the file and what was found") {
    Folder const folder;
    auto const   files = malformed_files();
    REQUIRE(files.size() >= 45);
    for (Malformed const& file : files) {
        CAPTURE(file.name);
        std::string const sentence = refusal([&] { Tokens::open(folder.write("shard.bin", file.content)); });
        CAPTURE(sentence);
        CHECK(mentions(sentence, file.sentence));
        CHECK(mentions(sentence, "shard.bin"));
    }
}

TEST_CASE("what is no file is refused") {
    Folder const folder;
    std::filesystem::create_directory(folder / "folder.bin");
    CHECK(mentions(refusal([&] { Tokens::open(folder / "folder.bin"); }), "found a directory"));
    CHECK(mentions(refusal([&] { Tokens::open(folder.path()); }), "found a directory"));
    CHECK(mentions(refusal([&] { Tokens::open(folder / "none.bin"); }), "does not exist"));
    CHECK(mentions(refusal([&] { Tokens::open("/dev/zero"); }), "found a pipe or a device"));
}

TEST_CASE("a shard of either width is read, up to the largest id") {
    Folder const                    folder;
    std::vector<std::int64_t> const narrow{0, 1, 255, 256, 50256, 65535};
    std::vector<std::int64_t> const wide{0, 65536, 128255, 2147483647};
    for (auto const& [ids, width] : {std::pair{narrow, 2}, std::pair{narrow, 4}, std::pair{wide, 4}}) {
        Tokens const tokens = Tokens::open(folder.write("ids.bin", shard(ids, width)));
        REQUIRE(tokens.size() == ids.size());
        CHECK(tokens.width() == static_cast<std::size_t>(width));
        for (std::size_t i = 0; i < ids.size(); ++i) CHECK(tokens[i] == ids[i]);
    }
}

}  // namespace token_shard_test
