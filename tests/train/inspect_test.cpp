// Parameters, gradients and activations of a live trainer by name.

#include "lockstep/train/inspect.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "cases.hpp"
#include "lockstep/optim/sgd.hpp"
#include "lockstep/parallel/sharded.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "run.hpp"
#include "scripted_model.hpp"

namespace inspect_test {

constexpr lockstep::state::ModelSizes sizes{.layers = 2, .heads = 2, .kv_heads = 2, .dim = 8, .ffn = 12, .vocab = 11, .sequence = 5};

using Names = std::vector<std::string>;

bool contains(Names const& names, std::string const& name) { return std::find(names.begin(), names.end(), name) != names.end(); }

TEST_CASE("expressions of a live trainer have the shape of their tensor and read what is there") {
    lockstep::Trainer<Scripted<lockstep::tensor::ArenaStorage>, lockstep::precision::Fp32, lockstep::optim::Sgd,
                      lockstep::parallel::Sharded<>>
         trainer{scripted_sizes(4, 1, 3), {}, world(), {.max_norm = 0}};
    Rows rows{.length = 2, .tokens = {}, .labels = {}};
    for (std::size_t r = 0; r < ranks(); ++r) {
        rows.tokens.insert(rows.tokens.end(), {1, 5});
        rows.labels.insert(rows.labels.end(), {2, 6});
    }
    trainer.accumulate(rows.mine());
    auto const gradient = lockstep::gradient(trainer, "h.0.w");
    REQUIRE(gradient.dimension() == 1);
    REQUIRE(gradient.shape()[0] == 3);
    CHECK(xt::all(xt::equal(gradient, xt::xarray<float>{0, 3, 0})));
    lockstep::for_each_activation(trainer, [&](std::string const& name, auto const& x) {
        CHECK(name == "x");
        CHECK(x.dimension() == 2);
        CHECK(x(0, 0) == 1);
        CHECK(&x(0, 0) == trainer.saved().x.data());  // nothing was copied
    });
    trainer.apply(0.5);
    CHECK(xt::all(xt::equal(lockstep::parameter(trainer, "w"), xt::xarray<float>{1, 0.5, 1, 1})));
    CHECK(xt::all(xt::equal(lockstep::parameter(trainer, "h.0.w"), xt::xarray<float>{1, -0.5, 1})));
}

TEST_CASE("every parameter and gradient of a model can be read whole on every strategy, layout undone") {
    Rows const rows      = random_rows(ranks(), 5, 11, 3);
    auto const reference = gpt2_fp64(Strategy::single, sizes, world(), {});
    reference->accumulate(rows.all());
    for (Strategy const strategy : strategies)
        for (auto const layout : {lockstep::state::Layout{}, lockstep::state::Layout{4, 3, lockstep::state::TileOrder::columns}}) {
            auto const run = gpt2_fp64(strategy, sizes, world(), {.model = {.layout = layout}});
            run->accumulate(strategy == Strategy::single ? rows.all() : rows.mine());
            for (lockstep::state::Unit const& unit : run->units())
                for (lockstep::state::Parameter const& p : unit.parameters) {
                    CHECK(run->parameter(p.name) == reference->parameter(p.name));
                    auto const found = run->gradient(p.name), expected = reference->gradient(p.name);
                    REQUIRE(found.size() == p.elements());
                    for (std::size_t i = 0; i < found.size(); ++i)
                        CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-9).scale(1e-6));
                }
            run->apply(0);
        }
    reference->apply(0);
}

TEST_CASE("initial weights have the deviations of GPT-2 and depend on the seed, not on ranks or layout") {
    constexpr lockstep::state::ModelSizes wide{.layers = 8, .heads = 2, .kv_heads = 2, .dim = 64, .ffn = 128, .vocab = 101, .sequence = 16};
    auto const                            deviation = [](std::vector<double> const& values) {
        double squares = 0;
        for (double v : values) squares += v * v;
        return std::sqrt(squares / static_cast<double>(values.size()));
    };
    auto const run = gpt2_fp32(Strategy::sharded, wide, world(), {});
    CHECK(deviation(run->parameter("wte")) == doctest::Approx(0.02).epsilon(0.05));
    CHECK(deviation(run->parameter("h.3.attn.c_attn.weight")) == doctest::Approx(0.02).epsilon(0.05));
    CHECK(deviation(run->parameter("h.3.attn.c_proj.weight")) == doctest::Approx(0.02 / 4).epsilon(0.05));
    CHECK(deviation(run->parameter("h.5.mlp.c_proj.weight")) == doctest::Approx(0.02 / 4).epsilon(0.05));
    CHECK(run->parameter("h.0.ln_1.weight") == std::vector<double>(64, 1.0));
    CHECK(run->parameter("h.0.attn.c_attn.bias") == std::vector<double>(192, 0.0));
    CHECK(run->parameter("h.0.attn.c_attn.weight") != run->parameter("h.1.attn.c_attn.weight"));
    auto const weights = run->weights();
    CHECK(gpt2_fp32(Strategy::single, wide, world(), {.model = {.layout = lockstep::state::Layout{32, 32}}})->weights() == weights);
    CHECK(gpt2_fp32(Strategy::replicated, wide, world(), {.seed = 1338})->weights() != weights);
}

TEST_CASE("activations of the last micro-step are there by name; recomputed blocks keep none") {
    Rows const rows = random_rows(1, 5, 11, 3);
    auto const run  = gpt2_fp32(Strategy::single, sizes, world(), {});
    run->step(rows.all(), 0);
    auto const names = run->activations();
    for (auto const* name : {"h.0.ln_1.input", "h.0.attn.qkv", "h.1.attn.output", "h.1.mlp.gelu.input", "head.input", "head.loss"})
        CHECK_MESSAGE(contains(names, name), name);
    CHECK(run->activation("h.0.attn.qkv").size() == 5 * 24);
    CHECK(run->activation("h.0.ln_1.mean").size() == 5);

    // The input of the first norm is the embedding.
    auto const wte = run->parameter("wte"), wpe = run->parameter("wpe"), x = run->activation("h.0.ln_1.input");
    for (std::size_t t = 0; t < 5; ++t)
        for (std::size_t c = 0; c < 8; ++c)
            CHECK(x[t * 8 + c] == doctest::Approx(wte[static_cast<std::size_t>(rows.tokens[t]) * 8 + c] + wpe[t * 8 + c]));

    auto const recomputing = gpt2_fp32(Strategy::single, sizes, world(), {.model = {.recompute = true}});
    recomputing->step(rows.all(), 0);
    CHECK_FALSE(contains(recomputing->activations(), "h.0.attn.qkv"));
    CHECK_THROWS_WITH_AS(recomputing->activation("h.0.attn.qkv"), doctest::Contains("there is no activation h.0.attn.qkv"),
                         lockstep::Error);
    CHECK_THROWS_WITH_AS(run->parameter("h.0.none"), doctest::Contains("there is no parameter h.0.none"), lockstep::Error);
}

TEST_CASE("evaluation changes nothing, drops nothing and agrees with the loss of a step") {
    Rows const rows = random_rows(2 * ranks(), 5, 11, 4);
    for (Strategy const strategy : strategies) {
        auto const   run    = gpt2_fp32(strategy, sizes, world(), {.micro_batch = 1});
        auto const   batch  = strategy == Strategy::single ? rows.all() : rows.mine();
        double const sum    = strategy == Strategy::single ? run->loss(batch) : world().sum(run->loss(batch));
        auto const   before = run->weights();
        auto const   result = run->step(batch, 0);
        CHECK(result.loss == doctest::Approx(sum / static_cast<double>(result.valid_tokens)).epsilon(1e-12));
        CHECK(run->weights() == before);
        auto const dropping = gpt2_fp32(strategy, sizes, world(), {.micro_batch = 1, .model = {.dropout = 0.5f}});
        CHECK((strategy == Strategy::single ? dropping->loss(batch) : world().sum(dropping->loss(batch))) == sum);
        CHECK(dropping->step(batch, 0).loss != result.loss);
    }
}

TEST_CASE("the logits of the next token are the same on every strategy and give the loss of its label") {
    std::vector<std::int32_t> const tokens{3, 1, 4, 1};
    auto const                      expected = gpt2_fp32(Strategy::single, sizes, world(), {})->next_token_logits(tokens);
    REQUIRE(expected.size() == 11);
    for (Strategy const strategy : strategies) CHECK(gpt2_fp32(strategy, sizes, world(), {})->next_token_logits(tokens) == expected);
    double sum = 0;
    for (float logit : expected) sum += std::exp(static_cast<double>(logit));
    Rows const rows{.length = 4, .tokens = tokens, .labels = {ignored, ignored, ignored, 7}};
    CHECK(gpt2_fp32(Strategy::single, sizes, world(), {})->loss(rows.all()) ==
          doctest::Approx(std::log(sum) - static_cast<double>(expected[7])).epsilon(1e-5));
}

TEST_CASE("options that mean nothing are refused by a sentence that says what was expected") {
    auto const refused = [](RunOptions const& options, char const* why) {
        CHECK_THROWS_WITH_AS(gpt2_fp32(Strategy::single, sizes, world(), options), doctest::Contains(why), lockstep::Error);
    };
    refused({.max_norm = -1}, "max_norm must be at least 0, which clips never, found -1");
    refused({.threads = -3}, "threads must be at least 0, which takes this rank's share of the cores, found -3");
    refused({.loss_scale = {.initial = 0}}, "loss_scale must begin above 0");
    refused({.loss_scale = {.backoff = 2}}, "loss_scale must begin above 0");
}

TEST_CASE("a batch that does not fit is refused by a sentence that says what was expected") {
    auto const run   = gpt2_fp32(Strategy::single, sizes, world(), {.micro_batch = 2});
    Rows const three = random_rows(3, 5, 11, 1), long_rows = random_rows(2, 6, 11, 1);
    CHECK_THROWS_WITH_AS(run->step(three.all(), 0), doctest::Contains("a multiple of the micro-batch 2"), lockstep::Error);
    CHECK_THROWS_WITH_AS(run->step(long_rows.all(), 0), doctest::Contains("the model takes 1 to 5"), lockstep::Error);
    Rows missing = random_rows(2, 5, 11, 1);
    missing.labels.pop_back();
    CHECK_THROWS_WITH_AS(run->step(missing.all(), 0), doctest::Contains("9 labels"), lockstep::Error);
    CHECK(run->step(random_rows(2, 5, 11, 1).all(), 0).applied);
}

}  // namespace inspect_test
