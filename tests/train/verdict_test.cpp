// Token weighting, clipping and verdicts, through whole steps of a model whose gradients are written down here.

#include <doctest/doctest.h>

#include <cmath>

#include "cases.hpp"
#include "run.hpp"
#include "scripted_model.hpp"

namespace verdict_test {

/// Rows of one parameter's slopes; rows are filled up with ignored labels.
Rows slopes(std::size_t length, std::initializer_list<std::vector<std::int32_t>> rows) {
    Rows result{.length = length, .tokens = {}, .labels = {}};
    for (auto row : rows) {
        row.resize(length, ignored);
        result.labels.insert(result.labels.end(), row.begin(), row.end());
    }
    result.tokens.resize(result.labels.size());
    return result;
}

/// Slope k belongs to parameter k; one sequence a rank, of which only that of `holder` has valid labels.
Rows on_one_rank(std::vector<std::int32_t> const& values, std::size_t holder) {
    Rows rows{.length = values.size(), .tokens = {}, .labels = {}};
    for (std::size_t r = 0; r < ranks(); ++r)
        for (std::size_t k = 0; k < values.size(); ++k) {
            rows.tokens.push_back(static_cast<std::int32_t>(k));
            rows.labels.push_back(r == holder ? values[k] : ignored);
        }
    return rows;
}

lockstep::data::Batch batch_of(Strategy strategy, Rows const& rows) { return strategy == Strategy::single ? rows.all() : rows.mine(); }

TEST_CASE("TRAPS 1: every valid token weighs the same, however tokens are shared out to ranks and micro-steps") {
    Rows const rows = slopes(3, {{1, 1, 1}, {}, {5}, {2, 4, 6}});
    for (Strategy const strategy : strategies)
        for (std::size_t micro_batch : {1u, 2u, 4u}) {
            auto const batch = batch_of(strategy, rows);
            if (batch.sequences % micro_batch != 0) continue;
            auto const run = scripted_fp32(strategy, scripted_sizes(1, 1, 1), world(), {.micro_batch = micro_batch});
            run->accumulate(batch);
            CHECK(run->gradient("w")[0] == doctest::Approx(20.0 / 7).epsilon(1e-6));
            auto const result = run->apply(0.1);
            CHECK(result.valid_tokens == 7);
            CHECK(result.loss == doctest::Approx(20.0 / 7).epsilon(1e-6));
            CHECK(run->parameter("w")[0] == doctest::Approx(1 - 2.0 / 7).epsilon(1e-6));
        }
}

TEST_CASE("TRAPS 2: one token of loss 4 and three of 2 make 2.5, as micro-batches, as ranks and as one batch") {
    Rows const rows = slopes(3, {{4}, {}, {2, 2, 2}, {}});
    for (Strategy const strategy : strategies)
        for (std::size_t micro_batch : {1u, 2u, 4u}) {
            auto const batch = batch_of(strategy, rows);
            if (batch.sequences % micro_batch != 0) continue;
            auto const run = scripted_fp32(strategy, scripted_sizes(1, 1, 1), world(), {.micro_batch = micro_batch});
            CHECK(run->step(batch, 0).loss == 2.5);
        }
}

TEST_CASE("TRAPS 3: a rank without valid tokens is legal; where no rank has any the step is skipped and its loss is 0") {
    for (Strategy const strategy : strategies) {
        auto const run  = scripted_fp32(strategy, scripted_sizes(3, 2, 2), world(), {});
        Rows const some = slopes(3, {{1, 2, 3}, {}, {}, {}});
        CHECK(run->step(batch_of(strategy, some), 0.1).loss == 2.0);
        auto const before = run->weights();

        Rows const none   = slopes(3, {{}, {}, {}, {}});
        auto const result = run->step(batch_of(strategy, none), 0.1);
        CHECK_FALSE(result.applied);
        CHECK(result.skip == lockstep::Skip::no_valid_tokens);
        CHECK(result.loss == 0);
        CHECK(result.gradient_norm == 0);
        CHECK(result.version == 1);
        CHECK(run->weights() == before);

        CHECK(run->step(batch_of(strategy, some), 0.1).applied);  // nothing of it is left behind
    }
}

TEST_CASE("TRAPS 7: gradients are unscaled before they are clipped") {
    for (Strategy const strategy : strategies)
        for (std::size_t holder = 0; holder < ranks(); ++holder) {
            auto const run  = scripted_adam(strategy, scripted_sizes(1, 1, 1), world(), {.max_norm = 1, .loss_scale = {.initial = 1024}});
            Rows const rows = on_one_rank({6, 8}, holder);  // two tokens: (3,4)
            run->accumulate(batch_of(strategy, rows));
            CHECK(run->gradient("w")[0] == 3 * 1024);
            auto const result = run->apply(0);
            CHECK(result.gradient_norm == doctest::Approx(5));
            CHECK(result.loss_scale == 1024);

            auto const plain = scripted_bf16(strategy, scripted_sizes(1, 1, 1), world(), {.max_norm = 1});
            CHECK(plain->step(batch_of(strategy, rows), 1).gradient_norm == doctest::Approx(5));
            CHECK(plain->parameter("w")[0] == doctest::Approx(1 - 0.6));
            CHECK(plain->parameter("h.0.w")[0] == doctest::Approx(1 - 0.8));
        }
}

TEST_CASE("TRAPS 8: each element counts once in the norm, whether it is sharded, replicated or on one rank only") {
    for (Strategy const strategy : strategies) {
        auto const run  = scripted_fp32(strategy, scripted_sizes(1, 1, 4), world(), {});
        Rows const rows = on_one_rank({60, 15, 0, 0, 20}, ranks() - 1);  // five tokens: 12, then 3, 0, 0, 4
        CHECK(run->step(batch_of(strategy, rows), 0).gradient_norm == doctest::Approx(13));
    }
}

TEST_CASE("TRAPS 9: a gradient that is not a number on one rank skips the step on all of them") {
    for (Strategy const strategy : strategies)
        for (std::int32_t const poison : {nan_slope, infinite_slope})
            for (std::size_t holder = 0; holder < ranks(); ++holder) {
                auto const run = scripted_fp32(strategy, scripted_sizes(2, 2, 3), world(), {.max_norm = 1});
                run->step(batch_of(strategy, on_one_rank({1, 2, 3, 4, 5, 6, 7, 8}, holder)), 0.1);
                auto const before = run->weights();
                auto const result = run->step(batch_of(strategy, on_one_rank({1, 2, 3, 4, poison, 6, 7, 8}, holder)), 0.1);
                CHECK(result.skip == lockstep::Skip::nonfinite);
                CHECK_FALSE(result.applied);
                CHECK_FALSE(std::isfinite(result.gradient_norm));
                CHECK(result.version == 1);
                CHECK(run->weights() == before);
                CHECK(describe(result.nonfinite, run->units()) == "the sum of the gradients of h.0.w");
                // Now each contribution is looked at.
                auto const again = run->step(batch_of(strategy, on_one_rank({1, 2, 3, 4, poison, 6, 7, 8}, holder)), 0.1);
                CHECK(again.skip == lockstep::Skip::nonfinite);
                CHECK(describe(again.nonfinite, run->units()) ==
                      "the gradient of h.0.w on rank " + std::to_string(strategy == Strategy::single ? 0 : holder));
                auto const asked = scripted_fp32(strategy, scripted_sizes(2, 2, 3), world(), {.max_norm = 1});
                asked->look_at_gradients();  // from the first step on
                CHECK(describe(asked->step(batch_of(strategy, on_one_rank({1, 2, 3, 4, poison, 6, 7, 8}, holder)), 0.1).nonfinite,
                               run->units()) ==
                      "the gradient of h.0.w on rank " + std::to_string(strategy == Strategy::single ? 0 : holder));
                auto const next = run->step(batch_of(strategy, on_one_rank({8, 8, 8, 8, 8, 8, 8, 8}, holder)), 0.1);
                CHECK(next.applied);
                CHECK(next.gradient_norm == doctest::Approx(std::sqrt(8.0)));
            }
}

TEST_CASE("TRAPS 10: 1000 micro-batches of gradient 1 add up to 1000 although bf16 computes") {
    for (Strategy const strategy : {Strategy::single, Strategy::replicated})
        for (auto const accumulate : {lockstep::parallel::Accumulate::local, lockstep::parallel::Accumulate::sharded}) {
            Rows       rows{.length = 1, .tokens = std::vector<std::int32_t>(1000), .labels = std::vector<std::int32_t>(1000, 1024)};
            RunOptions options{.micro_batch = 1};
            options.strategy.accumulate = accumulate;
            auto const run              = scripted_bf16(strategy, scripted_sizes(1, 1, 1), world(), options);
            run->accumulate(batch_of(strategy, rows));
            double const contribution = static_cast<double>(lockstep::precision::bfloat16(1024.0f / 1000));
            CHECK(run->gradient("w")[0] == doctest::Approx(1000 * contribution).epsilon(1e-6));
            run->apply(0);
        }
}

TEST_CASE("TRAPS 11: TRAPS 12: the sum over four ranks is exact on a bf16 wire and pairs ranks as a tree") {
    if (ranks() != 4) return;
    auto const gradient = [](Maker& make, Strategy strategy, std::vector<std::int32_t> const& by_rank, std::size_t bucket_bytes) {
        Rows const rows{.length = 1, .tokens = std::vector<std::int32_t>(4), .labels = by_rank};
        RunOptions options;
        options.strategy.bucket_bytes = bucket_bytes;
        auto const run                = make(strategy, scripted_sizes(3, 1, 5), world(), options);
        run->accumulate(rows.mine());
        auto const found = run->gradient("w")[0];
        run->apply(0);
        return found;
    };
    for (Strategy const strategy : {Strategy::replicated, Strategy::sharded_optimizer, Strategy::sharded, Strategy::hybrid})
        for (std::size_t const bucket : {0u, 64u << 10}) {
            for (auto const& order : {std::vector<std::int32_t>{1024, 4, 4, 4}, {4, 4, 4, 1024}, {4, 1024, 4, 4}}) {
                double const sum = gradient(scripted_bf16_wire, strategy, order, bucket);
                CHECK(sum == 259);  // sums are fp32; a bf16 sum would lose the ones
                CHECK(static_cast<float>(lockstep::precision::bfloat16(static_cast<float>(sum))) == 260);
            }
            CHECK(gradient(scripted_fp32, strategy, {400000000, -400000000, 4, 4}, bucket) == 2);
            CHECK(gradient(scripted_fp32, strategy, {400000000, 4, -400000000, 4}, bucket) == 0);  // (1e8 + 1) + (-1e8 + 1)
        }
}

TEST_CASE("TRAPS 17: TRAPS 28: an overflow on one rank halves the loss scale on all and leaves moments, step count and weights alone") {
    for (Strategy const strategy : strategies)
        for (std::size_t holder = 0; holder < ranks(); ++holder) {
            auto const run  = scripted_adam(strategy, scripted_sizes(1, 1, 1), world(), {.loss_scale = {.initial = 2}});
            auto const step = [&](std::int32_t slope, std::int32_t other) {
                return run->step(batch_of(strategy, on_one_rank({slope, other}, holder)), 0.1);
            };
            CHECK(step(2, 0).applied);  // two tokens: gradient 1
            auto const before = run->weights();

            auto const skipped = step(infinite_slope, 0);
            CHECK(skipped.skip == lockstep::Skip::nonfinite);
            CHECK(skipped.loss_scale == 2);
            CHECK(run->loss_scale() == 1);
            CHECK(run->weights() == before);
            CHECK(run->version() == 1);

            CHECK(step(1, 0).loss_scale == 1);  // gradient .5
            CHECK(run->parameter("w")[0] == doctest::Approx(0.8067820383).epsilon(1e-6));
            CHECK(run->parameter("h.0.w")[0] == 1);  // trap 25: a gradient of exactly zero changes nothing
        }
}

TEST_CASE("TRAPS 24: updates that are lost in a bf16 weight are kept in its master") {
    for (Strategy const strategy : strategies) {
        auto const           run  = scripted_bf16(strategy, scripted_sizes(1, 1, 1), world(), {});
        Rows const           rows = on_one_rank({1}, 0);
        lockstep::StepResult last;
        for (int s = 0; s < 100; ++s) last = run->step(batch_of(strategy, rows), 6e-4);
        CHECK(run->parameter("w")[0] == doctest::Approx(0.94).epsilon(1e-5));
        last = run->step(batch_of(strategy, rows), 0);
        CHECK(last.loss == static_cast<double>(lockstep::precision::bfloat16(0.94f)));
    }
}

TEST_CASE("no step follows one that an error has ended, and accumulate and apply take turns") {
    constexpr lockstep::state::ModelSizes sizes{.layers = 1, .heads = 2, .kv_heads = 2, .dim = 16, .ffn = 24, .vocab = 31, .sequence = 8};
    Rows const                            good = random_rows(2, 8, 31, 1);
    Rows                                  bad  = good;
    bad.tokens[9]                              = 1000;  // in the second micro-step, when the first one has left gradients
    {
        auto const run = gpt2_fp32(Strategy::single, sizes, world(), {.micro_batch = 1});
        run->step(good.all(), 0.01);
        CHECK_THROWS_AS(run->step(bad.all(), 0.01), lockstep::Error);
        CHECK_THROWS_WITH_AS(run->step(good.all(), 0.01), doctest::Contains("expected no step after one that has ended with an error"),
                             lockstep::Error);
    }
    auto const run = gpt2_fp32(Strategy::single, sizes, world(), {.micro_batch = 1});
    CHECK_THROWS_WITH_AS(run->apply(0.01), "Trainer: expected accumulate before apply, found none", lockstep::Error);
    run->accumulate(good.all());
    CHECK_THROWS_WITH_AS(run->accumulate(good.all()), "Trainer: expected apply between two calls of accumulate, found none",
                         lockstep::Error);
    CHECK(run->apply(0.01).applied);
    CHECK_THROWS_AS(run->step({}, 0.01), lockstep::Error);  // refused before anything has changed
    CHECK(run->step(good.all(), 0.01).applied);
}

}  // namespace verdict_test
