#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../folder.hpp"
#include "lockstep/data/tokens.hpp"
#include "lockstep/observe/ledger.hpp"
#include "shard_file.hpp"

namespace tokens_test {

using namespace lockstep::data;
using namespace lockstep::test;

std::vector<std::int32_t> copied(Tokens const& tokens) {
    std::vector<std::int32_t> ids(tokens.size());
    tokens.copy(0, ids);
    return ids;
}

std::size_t booked() { return lockstep::observe::ledger()[lockstep::observe::Category::data].now.load(); }

TEST_CASE("a text file is its bytes") {
    Folder const folder;
    Tokens const tokens = Tokens::open(folder.write("a.txt", std::string("a\0\xFFz", 4)));
    CHECK(copied(tokens) == std::vector<std::int32_t>{97, 0, 255, 122});
    CHECK(tokens.is_text());
    CHECK(tokens[2] == 255);
    CHECK(tokens.name() == (folder / "a.txt").string());
}

TEST_CASE("a file that has become shorter is refused where it is read, and what is left of it is not") {
    Folder const folder;
    for (char const* name : {"a.txt", "a.bin"}) {
        std::vector<std::int64_t> const ids(60'000, 97);
        auto const path = name == std::string("a.bin") ? folder.write(name, shard(ids, 2)) : folder.write(name, std::string(120'000, 'a'));
        Tokens const tokens = Tokens::open(path);
        auto const   size   = std::filesystem::file_size(path);
        std::filesystem::resize_file(path, 50'000);
        CHECK(tokens[1000] == 97);
        auto const found = refusal([&] { copied(tokens); });
        CHECK(mentions(found, name));
        CHECK(mentions(found, "expected " + std::to_string(size) + " bytes as when it was opened, found 50000"));
        CHECK(!refusal([&] { static_cast<void>(tokens.checksum()); }).empty());
        CHECK(!refusal([&] { tokens.check_vocabulary(100); }).empty());
    }
}

TEST_CASE("a checksum tells apart contents, their order and their length, and does not depend on where they lie") {
    Folder const      folder;
    std::string const text(40'000, 'x');
    auto const        sum = [&](std::string const& content) { return Tokens::text(folder.write("s.txt", content)).checksum(); };
    CHECK(sum(text) == Tokens::bytes(text).checksum());
    CHECK(sum(text) == sum(text));
    for (std::size_t const at : {0u, 7u, 16383u, 16384u, 39999u}) {
        std::string other = text;
        other[at]         = 'y';
        CHECK(sum(other) != sum(text));
    }
    CHECK(sum("ab" + text) != sum("ba" + text));
    CHECK(sum(text + std::string(1, '\0')) != sum(text));
    CHECK(Tokens::bytes("1234" + text).slice(4, 40'004).checksum() == sum(text));
}

TEST_CASE("an empty text is refused") {
    Folder const folder;
    CHECK(mentions(refusal([&] { Tokens::open(folder.write("a.txt", "")); }), "found an empty file"));
}

TEST_CASE("several files are one text in the given order, and empty ones do not matter") {
    Folder const     folder;
    std::array const paths{folder.write("b.txt", "one "), folder.write("c.txt", ""), folder.write("a.txt", "two")};
    Tokens const     tokens = Tokens::texts(paths, "both");
    CHECK(copied(tokens) == copied(Tokens::bytes("one two")));
    CHECK(tokens.name() == "both");
    CHECK(mentions(refusal([&] { Tokens::texts(std::span(paths).subspan(1, 1), "nothing"); }), "found nothing in 1 files"));
    std::array const missing{paths[0], folder / "none.txt"};
    CHECK(mentions(refusal([&] { Tokens::texts(missing, "both"); }), "none.txt\": expected a file to read, found that it does not exist"));
}

TEST_CASE("memory of tokens is booked as data and given back") {
    std::size_t const before = booked();
    {
        Tokens const tokens = Tokens::ids(std::vector<std::int32_t>{1, 2, 3});
        Tokens const shares = tokens.slice(1, 3);
        CHECK(booked() == before + 12);
    }
    CHECK(booked() == before);
}

TEST_CASE("a slice outlives the whole and sees its part") {
    Tokens part = Tokens::bytes("x");
    {
        Tokens const whole = Tokens::ids(std::vector<std::int32_t>{10, 11, 12, 13, 14});
        part               = whole.slice(1, 4).slice(1, 3);
    }
    CHECK(copied(part) == std::vector<std::int32_t>{12, 13});
    CHECK(mentions(refusal([&] { part.slice(1, 3); }), "expected a slice within 2 tokens, found 1 to 3"));
    std::vector<std::int32_t> three(3);
    CHECK(mentions(refusal([&] { part.copy(0, three); }), "expected a range within 2 tokens, found 0 to 3"));
    CHECK(!refusal([&] { part.copy(~std::size_t{0}, three); }).empty());
}

TEST_CASE("an id outside the vocabulary is named with its file, position and value") {
    Folder const              folder;
    std::vector<std::int64_t> ids(10000, 7);
    ids[5000] = 300;
    ids[9000] = 400;
    for (int const width : {2, 4}) {
        Tokens const tokens = Tokens::open(folder.write("ids.bin", shard(ids, width)));
        tokens.check_vocabulary(401);
        std::string const sentence = refusal([&] { tokens.check_vocabulary(300); });
        CHECK(mentions(sentence, "ids.bin"));
        CHECK(mentions(sentence, "below the vocabulary of 300, found 300 at position 5000"));
        CHECK(mentions(refusal([&] { tokens.slice(6000, 10000).check_vocabulary(400); }), "found 400 at position 9000"));
        tokens.slice(0, 5000).check_vocabulary(8);
    }
}

TEST_CASE("a file whose ids were found to be below the vocabulary, and then change, is refused where it is read") {
    Folder const folder;
    auto const   path   = folder.write("changed.bin", shard(std::vector<std::int64_t>(100, 7), 2));
    Tokens const tokens = Tokens::open(path), part = tokens.slice(50, 100);
    tokens.check_vocabulary(10);
    std::vector<std::int32_t> ids(10);
    CHECK_NOTHROW(part.copy(20, ids));
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(1024 + 2 * 75).put(11);
    CHECK(mentions(refusal([&] { part.copy(20, ids); }), "changed.bin: expected ids below the vocabulary of 10, found 11 at position 75"));
    CHECK_NOTHROW(part.copy(30, ids));
}

TEST_CASE("an id in the second of two files is named by that file") {
    Folder const     folder;
    std::array const paths{folder.write("a.txt", "aaaa"), folder.write("b.txt", "aaza")};
    Tokens const     tokens = Tokens::texts(paths, "both");
    for (Tokens const& part : {tokens, tokens.slice(5, 8)}) {
        std::string const sentence = refusal([&] { part.check_vocabulary(122); });
        CHECK(mentions(sentence, "b.txt"));
        CHECK(mentions(sentence, "found 122 at position 2"));
    }
}

TEST_CASE("2-byte ids cannot serve a vocabulary beyond them") {
    Folder const folder;
    Tokens const tokens = Tokens::open(folder.write("ids.bin", shard({1, 2}, 2)));
    tokens.check_vocabulary(65536);
    CHECK(mentions(refusal([&] { tokens.check_vocabulary(65537); }), "expected 4-byte ids for a vocabulary of 65537"));
}

TEST_CASE("an id beyond 31 bits never becomes a negative token") {
    Folder const              folder;
    Tokens const              tokens = Tokens::open(folder.write("ids.bin", shard({1, 2147483648}, 4)));
    std::vector<std::int32_t> out(2);
    CHECK(mentions(refusal([&] { tokens.copy(0, out); }), "found 2147483648 at position 1"));
    CHECK(mentions(refusal([&] { Tokens::ids(std::vector<std::int32_t>{3, -5}); }), "token 1 has the negative id -5"));
}

TEST_CASE("the last part of the tokens is held out") {
    auto const [train, held_out] = hold_out(Tokens::bytes("0123456789"), 0.2);
    CHECK(copied(train) == copied(Tokens::bytes("01234567")));
    CHECK(copied(held_out) == copied(Tokens::bytes("89")));
    CHECK(hold_out(Tokens::bytes("abc"), 0).held_out.size() == 0);
    CHECK(hold_out(Tokens::bytes(std::string(1115394, 'x')), 0.1).train.size() == 1003854);
    for (double const fraction : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()})
        CHECK(!refusal([&] { hold_out(Tokens::bytes("abc"), fraction); }).empty());
}

}  // namespace tokens_test
