// Bytes that the ledger shows of a run against the formula of the memory of model state.

#include <doctest/doctest.h>

#include "cases.hpp"
#include "lockstep/kernel/weight_copies.hpp"
#include "lockstep/observe/ledger.hpp"
#include "run.hpp"

namespace memory_test {

using lockstep::observe::Category;

struct Held {
    std::size_t parameters, masters, gradients, optimizer_state, gathered, buckets;
    std::size_t state() const { return parameters + masters + gradients + optimizer_state; }
};

Held held() {
    auto const now = [](Category category) { return lockstep::observe::ledger()[category].now.load(); };
    return {now(Category::parameters),      now(Category::masters),  now(Category::gradients),
            now(Category::optimizer_state), now(Category::gathered), now(Category::buckets)};
}

std::size_t elements(Run const& run) { return lockstep::state::element_count(run.units()); }

constexpr lockstep::state::ModelSizes gpt2{.layers = 2, .heads = 2, .kv_heads = 2, .dim = 16, .ffn = 24, .vocab = 31, .sequence = 8};
constexpr lockstep::state::ModelSizes llama{
    .arch = lockstep::state::Architecture::llama, .layers = 2, .heads = 2, .dim = 16, .ffn = 24, .vocab = 31, .sequence = 8, .tied = false};

TEST_CASE("model state is 16 bytes a parameter in fp32 and 18 in bf16 with Adam, to the byte") {
    RunOptions plain;
    plain.model.layout = lockstep::state::Layout{};
    for (Strategy const strategy : {Strategy::single, Strategy::replicated}) {
        {
            auto const run = gpt2_fp32(strategy, gpt2, world(), {});
            CHECK(held().state() == 16 * elements(*run));
            CHECK(held().masters == 0);  // they are the weights
        }
        {
            auto const run = llama_bf16(strategy, llama, world(), plain);
            CHECK(held().state() == 18 * elements(*run));
            CHECK(held().parameters == 2 * elements(*run));
            CHECK(held().masters == 4 * elements(*run));
        }
    }
    CHECK(held().state() == 0);
}

TEST_CASE("in tiles model state is 20 bytes an element in bf16 with Adam: two copies of the weights, padding included") {
    RunOptions tiled;
    tiled.model.layout = lockstep::kernel::packed_layout;
    for (Strategy const strategy : {Strategy::single, Strategy::replicated}) {
        auto const  run    = llama_bf16(strategy, llama, world(), tiled);
        std::size_t padded = 0;
        for (auto const& unit : run->units()) padded += unit.size;
        CHECK(padded > elements(*run));
        CHECK(held().state() == 20 * padded);
        CHECK(held().parameters == 4 * padded);
        CHECK(held().masters == 4 * padded);
    }
}

TEST_CASE("sharding divides weights, masters, gradients and optimizer state by the ranks; what is collected is booked apart") {
    for (auto const reshard : {lockstep::parallel::Reshard::always, lockstep::parallel::Reshard::never}) {
        RunOptions options;
        options.strategy.reshard = reshard;
        options.model.layout     = lockstep::state::Layout{};
        auto const  run          = llama_bf16(Strategy::sharded, llama, world(), options);
        std::size_t mine         = 0;
        for (std::size_t owned : run->owned_elements()) mine += owned;
        Held const now = held();
        CHECK(now.parameters == 2 * mine);
        CHECK(now.masters == 4 * mine);
        CHECK(now.optimizer_state == 8 * mine);
        CHECK(world().sum(static_cast<std::int64_t>(mine)) == static_cast<std::int64_t>(elements(*run)));
        CHECK(mine <= elements(*run) / ranks() + 64 * run->units().size());

        // The full gradient of the root and of up to three blocks, besides the shard.
        std::size_t const root = run->units()[0].size, block = run->units()[1].size;
        CHECK(now.gradients == 4 * (mine + root + 2 * block));
        CHECK(now.gathered == 2 * (root + 2 * block));
    }
}

TEST_CASE("where every unit has a slot it has the size of the unit, also where units are uneven: to the byte") {
    using lockstep::parallel::Reshard;
    auto three   = llama;
    three.layers = 3;
    RunOptions options;
    options.model.layout      = lockstep::state::Layout{};
    options.model.unit_blocks = 2;
    auto const gathered       = [&](Reshard reshard, std::size_t prefetch) {
        options.strategy.reshard  = reshard;
        options.strategy.prefetch = prefetch;
        auto const run            = llama_bf16(Strategy::sharded, three, world(), options);
        REQUIRE(run->units().size() == 3);
        CHECK(run->units()[1].size == 2 * run->units()[2].size);
        return held().gathered;
    };
    std::size_t root = 0, pair = 0, one = 0;  // elements
    {
        auto const run = llama_bf16(Strategy::sharded, three, world(), options);
        root = run->units()[0].size, pair = run->units()[1].size, one = run->units()[2].size;
    }
    CHECK(gathered(Reshard::always, 0) == 2 * (root + pair));
    CHECK(gathered(Reshard::always, 1) == 2 * (root + pair + one));
    CHECK(gathered(Reshard::always, 5) == 2 * (root + pair + one));
    CHECK(gathered(Reshard::never, 0) == 2 * (root + pair + one));
}

TEST_CASE("units of several blocks are gathered and collected as a whole, to the byte, and both peaks of a step show it") {
    RunOptions options;
    options.strategy.prefetch = 0;
    options.model.layout      = lockstep::state::Layout{};
    for (std::size_t const unit_blocks : {std::size_t{1}, llama.layers, std::size_t{0}}) {
        options.model.unit_blocks = unit_blocks;
        auto const  run           = llama_bf16(Strategy::sharded, llama, world(), options);
        auto const  result        = run->step(random_rows(ranks(), 8, 31, 1).mine(), 0.01);
        std::size_t mine = 0, largest = 0;
        for (std::size_t owned : run->owned_elements()) mine += owned;
        for (std::size_t u = 1; u < run->units().size(); ++u) largest = std::max(largest, run->units()[u].size);
        std::size_t const root = run->units()[0].size, collected = unit_blocks == 1 ? 2 * largest : largest;
        CHECK(run->units().size() == (unit_blocks == 0 ? 1 : 1 + llama.layers / unit_blocks));
        CHECK(held().gathered == 2 * (root + largest));
        CHECK(held().gradients == 4 * (mine + root + collected));
        CHECK(result.memory.held[Category::gathered] == held().gathered);
        CHECK(result.memory.forward.total >= held().state() + held().gathered);
        CHECK(result.memory.backward.total >= result.memory.forward.total);
    }
}

TEST_CASE("each phase has a peak of its own, in the first step as in later ones, though arenas stay") {
    auto const run = llama_bf16(Strategy::replicated, llama, world(), {});
    for (int step = 0; step < 3; ++step) {
        auto const peaks = run->step(random_rows(ranks(), 8, 31, 1).mine(), 0.01).memory;
        for (auto const category : {Category::parameters, Category::masters, Category::gradients, Category::optimizer_state})
            CHECK(peaks.forward[category] == peaks.backward[category]);
        CHECK(peaks.forward[Category::activations] < peaks.backward[Category::activations]);
        CHECK(peaks.forward.total < peaks.backward.total);
        CHECK(peaks.backward[Category::activations] < peaks.held[Category::activations]);
        CHECK(peaks.backward.total < peaks.held.total);
    }
}

TEST_CASE("ShardedOptimizer holds whole weights and gradients, and its shard of masters and optimizer state, to the byte") {
    RunOptions plain;
    plain.model.layout = lockstep::state::Layout{};
    std::size_t mine   = 0;
    {
        auto const run = llama_bf16(Strategy::sharded_optimizer, llama, world(), plain);
        for (std::size_t owned : run->owned_elements()) mine += owned;
        CHECK(held().parameters == 2 * elements(*run));
        CHECK(held().gradients == 4 * elements(*run));
        CHECK(held().masters == 4 * mine);
        CHECK(held().optimizer_state == 8 * mine);
        CHECK(held().gathered == 0);
        CHECK(world().sum(static_cast<std::int64_t>(mine)) == static_cast<std::int64_t>(elements(*run)));
    }
    auto const run = gpt2_fp32(Strategy::sharded_optimizer, gpt2, world(), {});
    mine           = 0;
    for (std::size_t owned : run->owned_elements()) mine += owned;
    CHECK(held().state() == 8 * elements(*run) + 8 * mine);  // masters are the weights
}

TEST_CASE("HybridSharded holds what Sharded does among the ranks of a group, to the byte") {
    RunOptions plain;
    plain.model.layout = lockstep::state::Layout{};
    for (std::size_t group = 1; group <= ranks(); ++group) {
        if (ranks() % group != 0) continue;
        plain.strategy.shard_group = group;
        auto const  run            = llama_bf16(Strategy::hybrid, llama, world(), plain);
        std::size_t mine           = 0;
        for (std::size_t owned : run->owned_elements()) mine += owned;
        Held const        now  = held();
        std::size_t const root = run->units()[0].size, block = run->units()[1].size;
        CHECK(now.parameters == 2 * mine);
        CHECK(now.masters == 4 * mine);
        CHECK(now.optimizer_state == 8 * mine);
        CHECK(now.gradients == 4 * (mine + root + 2 * block));
        CHECK(now.gathered == 2 * (root + 2 * block));
        CHECK(world().sum(static_cast<std::int64_t>(mine)) == static_cast<std::int64_t>(elements(*run) * ranks() / group));
    }
}

TEST_CASE("all that a run booked is given back with it, and a step reports its peaks") {
    auto const        before         = lockstep::observe::ledger().total().now.load();
    std::size_t const scratch_before = lockstep::observe::ledger()[Category::scratch].now.load();
    for (Strategy const strategy : strategies) {
        auto const run    = gpt2_fp32(strategy, gpt2, world(), {});
        Rows const rows   = random_rows(ranks(), 8, 31, 1);
        auto const result = run->step(strategy == Strategy::single ? rows.all() : rows.mine(), 0.01);
        CHECK(result.memory.held.total >= result.memory.forward.total);
        CHECK(result.memory.held.total >= result.memory.backward.total);
        CHECK(result.memory.forward.total >= held().state());
        CHECK(result.memory.held[Category::parameters] == held().parameters);
        CHECK(result.memory.held[Category::activations] > 0);
    }
    std::size_t const scratch =
        lockstep::observe::ledger()[Category::scratch].now.load() - scratch_before;  // of the threads, which live on
    CHECK(lockstep::observe::ledger().total().now.load() == before + scratch);
}

}  // namespace memory_test
