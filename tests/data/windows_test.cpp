#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "../folder.hpp"
#include "lockstep/data/windows.hpp"

namespace windows_test {

using namespace lockstep::data;
using namespace lockstep::test;

Tokens counting(std::size_t size) {
    std::vector<std::int32_t> ids(size);
    std::iota(ids.begin(), ids.end(), 0);
    return Tokens::ids(ids, "counting");
}

TEST_CASE("every window is evaluated exactly once, and all ranks have as many batches of one shape") {
    constexpr std::size_t T = 3;
    for (std::size_t const W : {1u, 2u, 5u, 8u, 13u})
        for (std::size_t const P : {1u, 2u, 3u, 4u})
            for (std::size_t const S : {1u, 2u, 5u}) {
                Tokens const     tokens = counting(W * T + 1 + W % T);  // W full windows and a rest that is too short
                std::vector<int> labelled(tokens.size(), 0);
                std::size_t      valid = 0;
                for (std::size_t rank = 0; rank < P; ++rank) {
                    EvaluationWindows evaluation(tokens, {.sequence = T, .batch = S, .rank = rank, .ranks = P});
                    REQUIRE(evaluation.size() == W);
                    std::size_t batches = 0;
                    for (Batch const& batch : evaluation) {
                        ++batches;
                        REQUIRE(batch.tokens.size() == S * T);
                        valid += valid_tokens(batch.labels);
                        for (std::size_t i = 0; i < S * T; ++i) {
                            std::int32_t const label = batch.labels[i];
                            if (label == lockstep::ignored_label) continue;
                            CHECK(label == batch.tokens[i] + 1);
                            ++labelled[static_cast<std::size_t>(label)];
                        }
                    }
                    CHECK(batches == (((W + P - 1) / P) + S - 1) / S);
                    CHECK(batches == evaluation.batches());
                }
                CHECK(valid == W * T);
                for (std::size_t i = 0; i < tokens.size(); ++i) CHECK(labelled[i] == (i >= 1 && i <= W * T ? 1 : 0));
            }
}

TEST_CASE("the ignore label holds in evaluation too") {
    EvaluationWindows evaluation(counting(9), {.sequence = 4, .batch = 2, .ignore_label = 8});
    CHECK(valid_tokens(evaluation[0].labels) == 7);
}

TEST_CASE("evaluation options that cannot be are refused") {
    Tokens const tokens = counting(20);
    auto const   said   = [&](WindowOptions const& options) { return refusal([&] { EvaluationWindows(tokens, options); }); };
    CHECK(mentions(said({.sequence = 20}), "data counting: expected at least 20 + 1 tokens"));
    CHECK(mentions(said({.sequence = 4, .batch = 0}), "expected at least 1 sequence"));
    CHECK(mentions(said({.sequence = 4, .rank = 1, .ranks = 1}), "found rank 1 of 1"));
    CHECK(mentions(said({.sequence = 4, .vocabulary = 10}), "found 10 at position 10"));
}

}  // namespace windows_test
