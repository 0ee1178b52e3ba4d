#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "../folder.hpp"
#include "lockstep/data/token_stream.hpp"
#include "lockstep/observe/ledger.hpp"
#include "shard_file.hpp"

namespace token_stream_test {

using namespace lockstep::data;
using namespace lockstep::test;

/// Token i has id i: what is read says where it was.
Tokens counting(std::size_t size) {
    std::vector<std::int32_t> ids(size);
    std::iota(ids.begin(), ids.end(), 0);
    return Tokens::ids(ids, "counting");
}

std::vector<std::int32_t> held(std::span<std::int32_t const> values) { return {values.begin(), values.end()}; }

TEST_CASE("a batch holds its windows and, as labels, the tokens that follow") {
    TokenStream  stream(counting(13), {.sequence = 4, .global_batch = 2, .order = Order::sequential});
    Batch const& batch = stream.next();
    CHECK(batch.sequences == 2);
    CHECK(batch.length == 4);
    CHECK(batch.first_sample == 0);
    CHECK(held(batch.tokens) == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(held(batch.labels) == std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7, 8});
    stream.next();  // the third window, then the next epoch
    CHECK(batch.first_sample == 2);
    CHECK(held(batch.tokens) == std::vector<std::int32_t>{8, 9, 10, 11, 0, 1, 2, 3});
    CHECK(held(batch.labels) == std::vector<std::int32_t>{9, 10, 11, 12, 1, 2, 3, 4});
}

TEST_CASE("a label equal to the ignore label is not valid, its token stays") {
    TokenStream  stream(counting(9), {.sequence = 4, .global_batch = 2, .order = Order::sequential, .ignore_label = 4});
    Batch const& batch = stream.next();
    CHECK(held(batch.tokens) == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(held(batch.labels) == std::vector<std::int32_t>{1, 2, 3, lockstep::ignored_label, 5, 6, 7, 8});
    CHECK(valid_tokens(batch.labels) == 7);
    CHECK(valid_tokens({}) == 0);
}

TEST_CASE("ranks and micro-steps together take exactly the samples of the step, whatever the split") {
    constexpr std::size_t G = 8, T = 3, steps = 5;
    Tokens const          tokens = counting(3 * 21 + 1);
    Sampler const         sampler{21, Order::shuffled, 5};
    for (std::size_t const P : {1u, 2u, 4u})
        for (std::size_t const A : {1u, 2u}) {
            std::size_t const B = G / P / A;
            for (std::size_t rank = 0; rank < P; ++rank) {
                TokenStream stream(tokens, {.sequence = T, .global_batch = G, .rank = rank, .ranks = P, .seed = 5});
                for (std::uint64_t s = 0; s < steps; ++s) {
                    Batch const& batch = stream.next();
                    REQUIRE(batch.sequences == A * B);
                    for (std::size_t m = 0; m < A; ++m)
                        for (std::size_t b = 0; b < B; ++b) {
                            std::uint64_t const sample = s * G + (rank * A + m) * B + b;
                            CHECK(batch.first_sample + m * B + b == sample);
                            CHECK(batch.tokens[(m * B + b) * T] == static_cast<std::int32_t>(sampler.window(sample) * T));
                        }
                }
            }
        }
}

TEST_CASE("the loader's batches are those that are computed directly, from any first step on") {
    Tokens const tokens = counting(5000);
    for (std::uint64_t const first : {0u, 17u}) {
        StreamOptions const options{.sequence = 7, .global_batch = 6, .rank = 1, .ranks = 3, .seed = 99, .first_step = first};
        TokenStream         stream(tokens, options);
        BatchAssembly const assembly{tokens, {4999 / 7, Order::shuffled, 99}, options};
        Sequences           expected(2, 7);
        for (std::uint64_t step = first; step < first + 1000; ++step) {
            assembly(expected, step);
            REQUIRE(stream.step() == step);
            Batch const& batch = stream.next();
            REQUIRE(batch.first_sample == expected.first_sample);
            REQUIRE(std::equal(batch.tokens.begin(), batch.tokens.end(), expected.tokens.begin(), expected.tokens.end()));
            REQUIRE(std::equal(batch.labels.begin(), batch.labels.end(), expected.labels.begin(), expected.labels.end()));
        }
    }
}

TEST_CASE("a loop over a stream ends at the last step") {
    std::vector<std::uint64_t> samples;
    for (Batch const& batch : TokenStream{counting(100), {.sequence = 4, .global_batch = 2, .first_step = 3, .last_step = 6}})
        samples.push_back(batch.first_sample);
    CHECK(samples == std::vector<std::uint64_t>{6, 8, 10});

    TokenStream none(counting(100), {.sequence = 4, .first_step = 3, .last_step = 3});
    CHECK(none.begin() == none.end());
    CHECK(mentions(refusal([&] { none.next(); }), "expected a step below 3, found step 3"));
}

TEST_CASE("a stream opens a file by its path") {
    Folder const folder;
    TokenStream  stream(folder.write("a.txt", "hello world"), {.sequence = 5, .order = Order::sequential, .vocabulary = 256});
    CHECK(held(stream.next().tokens) == std::vector<std::int32_t>{'h', 'e', 'l', 'l', 'o'});
}

TEST_CASE("options that cannot be are refused") {
    Tokens const tokens = counting(100);
    auto const   said   = [&](StreamOptions const& options) { return refusal([&] { TokenStream(tokens, options); }); };
    CHECK(mentions(said({.sequence = 4, .global_batch = 5, .ranks = 2}), "global batch: expected a multiple of 2 ranks, found 5"));
    CHECK(mentions(said({.sequence = 4, .global_batch = 0}), "found 0 sequences"));
    CHECK(mentions(said({.sequence = 4, .global_batch = 2, .rank = 2, .ranks = 2}), "found rank 2 of 2"));
    CHECK(mentions(said({.sequence = 4, .ranks = 0}), "found rank 0 of 0"));
    CHECK(mentions(said({.sequence = 0}), "expected at least 1, found 0"));
    CHECK(mentions(said({.sequence = 100}), "data counting: expected at least 100 + 1 tokens"));
    CHECK(mentions(said({.sequence = 4, .vocabulary = 99}),
                   "data counting: expected ids below the vocabulary of 99, found 99 at position 99"));
}

TEST_CASE("a bad id met while loading is rethrown by next") {
    Folder const folder;
    Tokens const tokens = Tokens::open(folder.write("ids.bin", shard({1, 1, 1, 1, 2155905152, 1}, 4)));
    TokenStream  stream(tokens, {.sequence = 2, .order = Order::sequential});
    stream.next();
    CHECK(mentions(refusal([&] { stream.next(); }), "found 2155905152 at position 4"));
}

TEST_CASE("a stream can end early, and gives its memory back") {
    auto const&  entry  = lockstep::observe::ledger()[lockstep::observe::Category::data];
    Tokens const tokens = counting(100);
    auto const   before = entry.now.load();
    for (int taken = 0; taken < 50; ++taken) {
        TokenStream stream(tokens, {.sequence = 4, .global_batch = 2});
        for (int i = 0; i < taken % 3; ++i) stream.next();
        CHECK(entry.now.load() == before + 2 * 2 * 2 * 4 * sizeof(std::int32_t));
    }
    CHECK(entry.now.load() == before);
}

}  // namespace token_stream_test
