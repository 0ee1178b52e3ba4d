// TrainerOptions::reproducible: the same bits on 1, 2 and 4 ranks, on every strategy.

#include <doctest/doctest.h>

#include "cases.hpp"
#include "lockstep/observe/ledger.hpp"
#include "run.hpp"

namespace reproducible_test {

constexpr lockstep::state::ModelSizes gpt2{.layers = 2, .heads = 3, .kv_heads = 3, .dim = 12, .ffn = 20, .vocab = 19, .sequence = 7};
constexpr lockstep::state::ModelSizes llama{
    .arch = lockstep::state::Architecture::llama, .layers = 2, .heads = 2, .dim = 12, .ffn = 10, .vocab = 19, .sequence = 7, .tied = false};

struct Trained {
    std::vector<double> losses, norms, weights;

    bool operator==(Trained const&) const = default;
};

/// Three steps of 12 sequences on groups of so many ranks: each group trains the same.
Trained train(Maker& make, Strategy strategy, lockstep::state::ModelSizes const& sizes, std::size_t of, std::size_t micro_batch,
              bool reproducible, int threads = 1) {
    auto const group = world().split(static_cast<int>(rank() / of), static_cast<int>(rank()));
    RunOptions options{.micro_batch = micro_batch, .max_norm = 1, .threads = threads, .model = {.dropout = 0.1f}};
    options.reproducible = reproducible;
    auto const run       = make(strategy, sizes, group, options);
    Trained    trained;
    for (std::uint64_t i = 0; i < 3; ++i) {
        Rows const rows   = random_rows(12, 7, sizes.vocab, i);
        auto const result = run->step(rows.part(static_cast<std::size_t>(group.rank()), of), 0.01);
        trained.losses.push_back(result.loss);
        trained.norms.push_back(result.gradient_norm);
    }
    trained.weights = run->weights();
    return trained;
}

void check_all(Maker& make, lockstep::state::ModelSizes const& sizes) {
    for (std::size_t micro_batch : {1u, 3u}) {
        auto const expected = train(make, Strategy::single, sizes, 1, micro_batch, true);
        for (std::size_t of = 1; of <= ranks(); of *= 2)
            for (Strategy const strategy : {Strategy::replicated, Strategy::sharded_optimizer, Strategy::sharded, Strategy::hybrid}) {
                CAPTURE(of);
                CAPTURE(static_cast<int>(strategy));
                CHECK((train(make, strategy, sizes, of, micro_batch, true, of == 1 ? 2 : 1) == expected));
            }
    }
}

TEST_CASE("in fp32, 12, 6 and 3 micro-steps a rank give the same bits on 1, 2 and 4 ranks") { check_all(gpt2_fp32, gpt2); }
TEST_CASE("in bf16 too") { check_all(llama_bf16, llama); }

TEST_CASE("without the option the bits depend on the ranks") {
    if (ranks() == 1) return;
    auto const one = train(gpt2_fp32, Strategy::single, gpt2, 1, 1, false), two = train(gpt2_fp32, Strategy::replicated, gpt2, 2, 1, false);
    CHECK(one.weights != two.weights);
    CHECK(train(gpt2_fp32, Strategy::single, gpt2, 1, 1, true).weights != one.weights);
}

TEST_CASE("it costs buffers of all gradients, log2 of the micro-steps") {
    auto const gradients = [](bool reproducible, Strategy strategy) {
        RunOptions options{.micro_batch = 1};
        options.reproducible        = reproducible;
        options.strategy.accumulate = lockstep::parallel::Accumulate::local;
        auto const run              = gpt2_fp32(strategy, gpt2, world(), options);
        run->step(random_rows(6 * ranks(), 7, gpt2.vocab, 1).mine(), 0.01);
        return lockstep::observe::ledger()[lockstep::observe::Category::gradients].now.load();
    };
    std::size_t const all = 4 * lockstep::state::element_count(gpt2_fp32(Strategy::single, gpt2, world(), {})->units());
    for (Strategy const strategy : {Strategy::replicated, Strategy::sharded_optimizer, Strategy::sharded})
        CHECK(gradients(true, strategy) == gradients(false, strategy) + 2 * all);  // 6 micro-steps
}

}  // namespace reproducible_test
