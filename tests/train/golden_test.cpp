// Four steps of a tied tiny GPT whose numbers PyTorch computed in float64: tests/golden/tied_tiny.

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "cases.hpp"
#include "run.hpp"

namespace golden_test {

constexpr double losses[]{3.1083410153818645, 2.74359570823723, 2.7895669057523667, 2.713551013735256};
constexpr double norms[]{1.3559311709467567, 4.094605871659681, 1.6744098921685755, 4.251397684130142};
constexpr double next_loss = 2.642583732657736;

constexpr lockstep::state::ModelSizes sizes{.layers = 2, .heads = 2, .kv_heads = 2, .dim = 8, .ffn = 32, .vocab = 17, .sequence = 6};

/// Valid tokens a row: 6, 2, 5, 0.
Rows golden_rows() {
    Rows       rows{.length = 6, .tokens = {}, .labels = {}};
    auto const token = [](int b, int t) { return (7 * b + 3 * t + b * t) % 17; };
    for (int b = 0; b < 4; ++b)
        for (int t = 0; t < 6; ++t) {
            rows.tokens.push_back(token(b, t));
            rows.labels.push_back((b == 1 && t < 4) || b == 3 || (b == 2 && t == 0) ? ignored : token(b, t + 1));
        }
    return rows;
}

/// sin(0.37 i + 1.1 k + 0.5), where k counts the parameters: the tables, the blocks, the last norm.
double golden_weight(lockstep::state::Parameter const& p, std::size_t i) {
    static std::vector<std::string> const in_block{"ln_1.weight",        "ln_1.bias",        "attn.c_attn.weight", "attn.c_attn.bias",
                                                   "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight",        "ln_2.bias",
                                                   "mlp.c_fc.weight",    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias"};
    std::size_t                           k = p.name == "wte" ? 0 : p.name == "wpe" ? 1 : p.name == "ln_f.weight" ? 26 : 27;
    if (p.name.starts_with("h.")) {
        auto const place = std::find(in_block.begin(), in_block.end(), p.name.substr(4));
        REQUIRE(place != in_block.end());
        k = 2 + 12 * static_cast<std::size_t>(p.name[2] - '0') + static_cast<std::size_t>(place - in_block.begin());
    }
    double const wave = std::sin(0.37 * static_cast<double>(i) + 1.1 * static_cast<double>(k) + 0.5);
    if (p.dimensions == 2) return 0.2 * wave;
    return p.name.ends_with("bias") ? 0.05 * wave : 1 + 0.1 * wave;
}

struct Tolerance {
    double loss, norm;
};

/// Every strategy, every way to share four sequences out to micro-steps, reshard and accumulation both ways.
void check_golden(Maker& make, Tolerance tolerance) {
    Rows const rows = golden_rows();
    for (Strategy const strategy : strategies)
        for (std::size_t micro_steps : {1u, 2u, 4u})
            for (auto const reshard : {lockstep::parallel::Reshard::always, lockstep::parallel::Reshard::never})
                for (auto const accumulate : {lockstep::parallel::Accumulate::local, lockstep::parallel::Accumulate::sharded}) {
                    bool const single = strategy == Strategy::single;
                    auto const batch  = single ? rows.all() : rows.mine();
                    if (batch.sequences % micro_steps != 0) continue;
                    if (strategy != Strategy::sharded && strategy != Strategy::hybrid &&
                        (reshard == lockstep::parallel::Reshard::never || accumulate == lockstep::parallel::Accumulate::sharded))
                        continue;
                    RunOptions options{.micro_batch = batch.sequences / micro_steps, .max_norm = 1.0};
                    options.strategy.reshard    = reshard;
                    options.strategy.accumulate = accumulate;
                    auto const run              = make(strategy, sizes, world(), options);
                    run->assign(golden_weight);
                    CAPTURE(static_cast<int>(strategy));
                    CAPTURE(micro_steps);
                    for (std::size_t s = 0; s < 4; ++s) {
                        auto const result = run->step(batch, 0.01);
                        CHECK(result.applied);
                        CHECK(result.version == s + 1);
                        CHECK(result.valid_tokens == 13);
                        CHECK(result.tokens == 24);
                        CHECK(std::abs(result.loss - losses[s]) < tolerance.loss * losses[s]);
                        CHECK(std::abs(result.gradient_norm - norms[s]) < tolerance.norm * norms[s]);
                    }
                    auto const last = run->step(batch, 0);
                    CHECK(std::abs(last.loss - next_loss) < tolerance.loss * next_loss);
                }
}

TEST_CASE("the golden case comes out in double precision on every strategy, number of ranks and of micro-steps") {
    check_golden(gpt2_fp64, {1e-12, 1e-11});
}

TEST_CASE("the golden case comes out in single precision on every strategy, number of ranks and of micro-steps") {
    check_golden(gpt2_fp32, {2e-5, 2e-4});
}

TEST_CASE("the golden case starts from its safetensors, and ends at those") {
    std::string const folder = LOCKSTEP_GOLDEN "/tied_tiny/";
    Rows const        rows   = golden_rows();
    auto const        run    = gpt2_fp32(Strategy::sharded, sizes, world(), {.max_norm = 1.0});
    run->load(folder + "init.safetensors");
    CHECK(run->step(rows.mine(), 0.01).loss == doctest::Approx(losses[0]).epsilon(2e-6));
    for (int s = 1; s < 4; ++s) run->step(rows.mine(), 0.01);
    std::vector<std::vector<double>> trained;
    for (auto const& unit : run->units())
        for (auto const& p : unit.parameters) trained.push_back(run->parameter(p.name));
    run->load(folder + "final.safetensors");
    auto const* values = trained.data();
    double      worst  = 0;
    for (auto const& unit : run->units())
        for (auto const& p : unit.parameters) {
            auto const& found    = *values++;
            auto const  expected = run->parameter(p.name);
            REQUIRE(found.size() == expected.size());
            for (std::size_t i = 0; i < found.size(); ++i) {
                bool const key_bias = p.name.ends_with("attn.c_attn.bias") && i / 8 == 1;  // its true gradient is zero
                if (!key_bias) worst = std::max(worst, std::abs(found[i] - expected[i]));
            }
        }
    CHECK(worst < 2e-5);
}

}  // namespace golden_test
