// Whole training steps of a tiny GPT: every strategy against Single on the concatenated batch, and the same bits whatever does not change
// the order of a sum.

#include <doctest/doctest.h>

#include <cmath>

#include "cases.hpp"
#include "run.hpp"

namespace same_bits_test {

using lockstep::parallel::Accumulate;
using lockstep::parallel::Reshard;

constexpr lockstep::state::ModelSizes sizes{.layers = 3, .heads = 3, .kv_heads = 3, .dim = 12, .ffn = 20, .vocab = 19, .sequence = 7};

struct Trained {
    std::vector<double> losses, norms, weights;
};

/// Three steps of `per_rank` sequences a rank.
Trained train(Maker& make, Strategy strategy, RunOptions const& options, std::size_t per_rank = 4,
              lockstep::state::ModelSizes const& s = sizes) {
    Trained    trained;
    auto const run = make(strategy, s, world(), options);
    for (std::uint64_t i = 0; i < 3; ++i) {
        Rows const rows   = random_rows(per_rank * ranks(), 7, s.vocab, i);
        auto const result = run->step(strategy == Strategy::single ? rows.all() : rows.mine(), 0.01);
        trained.losses.push_back(result.loss);
        trained.norms.push_back(result.gradient_norm);
    }
    trained.weights = run->weights();
    return trained;
}

double worst(std::vector<double> const& a, std::vector<double> const& b) {
    REQUIRE(a.size() == b.size());
    double deviation = 0;
    for (std::size_t i = 0; i < a.size(); ++i) deviation = std::max(deviation, std::abs(a[i] - b[i]));
    return deviation;
}

void check_same(Trained const& found, Trained const& expected) {
    CHECK(found.losses == expected.losses);
    CHECK(found.norms == expected.norms);
    CHECK(found.weights == expected.weights);
}

RunOptions options_of(std::size_t micro_batch, lockstep::parallel::Options strategy = {}) {
    RunOptions options{.micro_batch = micro_batch, .max_norm = 1, .model = {.dropout = 0.1f}};
    options.strategy = strategy;
    return options;
}

TEST_CASE("every strategy trains like Single on the concatenated batch, dropout included") {
    auto const expected = train(gpt2_fp64, Strategy::single, options_of(0));
    for (Strategy const strategy : {Strategy::replicated, Strategy::sharded_optimizer, Strategy::sharded, Strategy::hybrid})
        for (std::size_t micro_batch : {1u, 2u, 4u}) {
            auto const found = train(gpt2_fp64, strategy, options_of(micro_batch));
            CHECK(worst(found.losses, expected.losses) < 1e-12);
            CHECK(worst(found.norms, expected.norms) < 1e-11);
            CHECK(worst(found.weights, expected.weights) < 1e-8);
        }
}

TEST_CASE("bucket size, prefetch, reshard, units, overlap and threads change no bit, nor does sharding with local accumulation") {
    for (std::size_t micro_batch : {4u, 2u}) {
        auto const expected = train(gpt2_fp32, Strategy::replicated, options_of(micro_batch));
        for (std::size_t bucket : {std::size_t{0}, std::size_t{4096}, std::size_t{64} << 10}) {
            check_same(
                train(gpt2_fp32, Strategy::replicated, options_of(micro_batch, {.bucket_bytes = bucket, .first_bucket_bytes = bucket / 2})),
                expected);
            check_same(train(gpt2_fp32, Strategy::replicated, options_of(micro_batch, {.bucket_bytes = bucket, .overlap = false})),
                       expected);
        }
        for (std::size_t prefetch : {0u, 1u, 2u})
            for (auto const reshard : {Reshard::always, Reshard::never})
                for (bool const overlap : {true, false})
                    check_same(
                        train(gpt2_fp32, Strategy::sharded,
                              options_of(micro_batch,
                                         {.prefetch = prefetch, .reshard = reshard, .overlap = overlap, .accumulate = Accumulate::local})),
                        expected);
        for (bool const overlap : {true, false}) {
            check_same(train(gpt2_fp32, Strategy::sharded_optimizer, options_of(micro_batch, {.overlap = overlap})), expected);
            for (std::size_t group = 1; group < ranks(); ++group)
                if (ranks() % group == 0)
                    check_same(train(gpt2_fp32, Strategy::hybrid,
                                     options_of(micro_batch, {.prefetch    = group,
                                                              .reshard     = overlap ? Reshard::always : Reshard::never,
                                                              .overlap     = overlap,
                                                              .accumulate  = Accumulate::local,
                                                              .shard_group = group})),
                               expected);
        }
        for (std::size_t unit_blocks : {0u, 2u})  // of 3
            for (Strategy const strategy : {Strategy::replicated, Strategy::sharded_optimizer, Strategy::sharded, Strategy::hybrid}) {
                RunOptions options        = options_of(micro_batch, {.prefetch   = micro_batch == 2 ? 0u : 1u,
                                                                     .reshard    = micro_batch == 2 ? Reshard::never : Reshard::always,
                                                                     .overlap    = unit_blocks != 0,
                                                                     .accumulate = Accumulate::local});
                options.model.unit_blocks = unit_blocks;
                options.model.recompute   = unit_blocks == 2;
                check_same(train(gpt2_fp32, strategy, options), expected);
            }
        for (auto const progress : {lockstep::comm::Progress::thread, lockstep::comm::Progress::inside})
            for (Strategy const strategy : {Strategy::replicated, Strategy::sharded_optimizer, Strategy::sharded, Strategy::hybrid})
                check_same(train(gpt2_fp32, strategy, options_of(micro_batch, {.accumulate = Accumulate::local, .progress = progress})),
                           expected);
        for (Strategy const strategy : {Strategy::replicated, Strategy::sharded_optimizer, Strategy::sharded, Strategy::hybrid}) {
            RunOptions threaded = options_of(micro_batch, {.accumulate = Accumulate::local});
            threaded.threads    = 2;
            check_same(train(gpt2_fp32, strategy, threaded), expected);
        }
    }
}

TEST_CASE("with one micro-step, both ways to accumulate are the same to the bit") {
    for (Strategy const strategy : {Strategy::sharded, Strategy::hybrid})
        check_same(train(gpt2_fp32, strategy, options_of(0, {.accumulate = Accumulate::sharded})),
                   train(gpt2_fp32, Strategy::replicated, options_of(0)));
}

TEST_CASE("adding up micro-steps in the shards sums in another order and stays close; its own options change no bit") {
    auto const local    = train(gpt2_fp32, Strategy::replicated, options_of(1));
    auto const expected = train(gpt2_fp32, Strategy::sharded, options_of(1));
    CHECK(worst(expected.losses, local.losses) < 1e-4);
    CHECK(worst(expected.norms, local.norms) < 1e-3);
    for (std::size_t prefetch : {0u, 2u})
        for (auto const reshard : {Reshard::always, Reshard::never})
            check_same(train(gpt2_fp32, Strategy::sharded, options_of(1, {.prefetch = prefetch, .reshard = reshard})), expected);
    check_same(train(gpt2_fp32, Strategy::hybrid, options_of(1)), expected);
}

TEST_CASE("Single is the same to the bit on one rank and with two threads") {
    auto const expected = train(gpt2_fp32, Strategy::single, options_of(2));
    RunOptions threaded = options_of(2);
    threaded.threads    = 2;
    check_same(train(gpt2_fp32, Strategy::single, threaded), expected);
    if (ranks() == 1) {
        check_same(train(gpt2_fp32, Strategy::replicated, options_of(2)), expected);
        for (Strategy const strategy : {Strategy::sharded_optimizer, Strategy::sharded, Strategy::hybrid})
            check_same(train(gpt2_fp32, strategy, options_of(2, {.accumulate = Accumulate::local})), expected);
    }
}

TEST_CASE("TRAPS 30: recomputation draws the same masks and gives the same gradients, bit for bit") {
    for (Strategy const strategy : strategies) {
        RunOptions recomputed      = options_of(2);
        recomputed.model.recompute = true;
        check_same(train(gpt2_fp32, strategy, recomputed), train(gpt2_fp32, strategy, options_of(2)));
        check_same(train(llama_bf16, strategy, recomputed, 4,
                         {.arch     = lockstep::state::Architecture::llama,
                          .layers   = 2,
                          .heads    = 2,
                          .dim      = 12,
                          .ffn      = 10,
                          .vocab    = 19,
                          .sequence = 7,
                          .tied     = false}),
                   train(llama_bf16, strategy, options_of(2), 4,
                         {.arch     = lockstep::state::Architecture::llama,
                          .layers   = 2,
                          .heads    = 2,
                          .dim      = 12,
                          .ffn      = 10,
                          .vocab    = 19,
                          .sequence = 7,
                          .tied     = false}));
    }
}

TEST_CASE("a layout that permutes and pads elements gives the same losses and, undone, the same parameters") {
    constexpr lockstep::state::ModelSizes llama{.arch     = lockstep::state::Architecture::llama,
                                                .layers   = 2,
                                                .heads    = 4,
                                                .kv_heads = 2,
                                                .dim      = 40,
                                                .ffn      = 33,
                                                .vocab    = 37,
                                                .sequence = 7,
                                                .tied     = false};
    for (auto const layout : {lockstep::state::Layout{4, 3, lockstep::state::TileOrder::columns}, lockstep::state::Layout{32, 32}})
        for (Strategy const strategy : strategies) {
            RunOptions permuted   = options_of(2);
            permuted.model.layout = layout;
            auto const found = train(gpt2_fp32, strategy, permuted), expected = train(gpt2_fp32, strategy, options_of(2));
            CHECK(worst(found.losses, expected.losses) < 1e-5);
            CHECK(worst(found.norms, expected.norms) < 1e-5);
            CHECK(worst(found.weights, expected.weights) < 1e-4);
            auto const tiled = train(gpt2_fp64, strategy, permuted), plain = train(gpt2_fp64, strategy, options_of(2));
            CHECK(worst(tiled.weights, plain.weights) < 1e-9);
            auto const bf16       = train(llama_bf16, strategy, permuted, 2, llama),
                       bf16_plain = train(llama_bf16, strategy, options_of(2), 2, llama);
            CHECK(worst(bf16.losses, bf16_plain.losses) < 2e-3);
        }
}

TEST_CASE("more ranks than granules leave some shards empty, and the model still trains") {
    constexpr lockstep::state::ModelSizes tiny{.layers = 1, .heads = 1, .kv_heads = 1, .dim = 2, .ffn = 1, .vocab = 3, .sequence = 7};
    auto const                            expected = train(gpt2_fp64, Strategy::single, options_of(0), 1, tiny);
    for (Strategy const strategy : {Strategy::sharded_optimizer, Strategy::sharded, Strategy::hybrid})
        CHECK(worst(train(gpt2_fp64, strategy, options_of(1), 1, tiny).weights, expected.weights) < 1e-9);
    RunOptions blocks   = options_of(1);
    blocks.model.layout = lockstep::state::Layout{32, 32};  // one granule a matrix
    CHECK(worst(train(gpt2_fp64, Strategy::sharded, blocks, 1, tiny).weights, expected.weights) < 1e-9);

    // Three elements in the root, one in a block: on four ranks most shards are empty.
    auto const run = scripted_fp32(Strategy::sharded, scripted_sizes(3, 2, 1), world(), {});
    Rows       rows{.length = 5, .tokens = {}, .labels = {}};
    for (std::size_t r = 0; r < ranks(); ++r)
        for (std::int32_t k = 0; k < 5; ++k) rows.tokens.push_back(k), rows.labels.push_back(5 * (k + 1));
    auto const        owned = run->owned_elements();
    std::size_t const empty = static_cast<std::size_t>(std::count(owned.begin(), owned.end(), 0u));
    CHECK(empty == (rank() == 0 ? 0u : rank() < (ranks() == 2 ? 2u : 3u) ? 2u : 3u));
    CHECK(run->step(rows.mine(), 0.1).gradient_norm == doctest::Approx(std::sqrt(55.0)));
    auto const weights = run->weights();
    for (std::size_t k = 0; k < 5; ++k) CHECK(weights[k] == doctest::Approx(1 - 0.1 * static_cast<double>(k + 1)));
}

}  // namespace same_bits_test
