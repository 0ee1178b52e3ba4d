// Weights go to files and come back, on whichever ranks and strategy.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "cases.hpp"
#include "run.hpp"

namespace weights_test {

constexpr lockstep::state::ModelSizes sizes{.layers = 2, .heads = 2, .kv_heads = 2, .dim = 8, .ffn = 12, .vocab = 11, .sequence = 5};

/// Apart for each number of ranks: tests of several may run at once.
std::filesystem::path folder(std::string const& name) { return "weights_on_" + std::to_string(ranks()) + "_" + name; }

void remove_folder(std::filesystem::path const& path) {
    world().barrier();
    if (rank() == 0) std::filesystem::remove_all(path);
    world().barrier();
}

TEST_CASE("exported weights load equal to the bit on every strategy, layout and group of ranks") {
    for (Strategy const from : strategies) {
        auto const path = folder("from_" + std::to_string(static_cast<int>(from)));
        remove_folder(path);
        auto const trained = gpt2_fp32(from, sizes, world(), {});
        Rows const rows    = random_rows(ranks(), 5, 11, 3);
        trained->step(from == Strategy::single ? rows.all() : rows.mine(), 0.01);
        if (from != Strategy::single || rank() == 0) trained->save(path);  // Single writes for itself
        world().barrier();
        auto const expected = trained->weights();
        for (Strategy const to : strategies)
            for (auto const layout : {lockstep::state::Layout{}, lockstep::state::Layout{4, 3, lockstep::state::TileOrder::columns}}) {
                auto const run = gpt2_fp32(to, sizes, world(), {.seed = 5, .model = {.layout = layout}});
                CHECK(run->weights() != expected);
                run->load(path);
                CHECK(run->weights() == expected);
            }
        auto const group = world().split(static_cast<int>(rank()) % 2);
        auto const run   = gpt2_fp32(Strategy::sharded, sizes, group, {.seed = 5});
        run->load(path);
        CHECK(run->weights() == expected);
        remove_folder(path);
    }
}

TEST_CASE("weights of another model are refused") {
    auto const path = folder("other");
    remove_folder(path);
    gpt2_fp32(Strategy::replicated, sizes, world(), {})->save(path);
    world().barrier();
    auto other     = sizes;
    other.layers   = 1;
    auto const run = gpt2_fp32(Strategy::replicated, other, world(), {});
    CHECK_THROWS_WITH_AS(run->load(path), doctest::Contains("unexpected tensors"), lockstep::Error);
    remove_folder(path);
}

TEST_CASE("an export that fails on rank 0 is the same error on all ranks and leaves nothing behind") {
    auto const path = folder("blocked");
    remove_folder(path);
    if (rank() == 0) std::ofstream(path) << "not a folder";
    world().barrier();
    for (Strategy const strategy : {Strategy::replicated, Strategy::sharded}) {
        auto const run = gpt2_fp32(strategy, sizes, world(), {});
        CHECK_THROWS_WITH_AS(run->save(path / "out"), doctest::Contains("cannot be made a directory"), lockstep::Error);
        CHECK_NOTHROW(run->check_replicas());  // no rank is left behind in a collective
    }
    CHECK(std::filesystem::is_regular_file(path));
    remove_folder(path);
}

TEST_CASE("weights that cannot be read, or are others, on one rank are an error of all that names it") {
    if (ranks() == 1) return;
    auto const path = folder("own_" + std::to_string(rank()));
    std::filesystem::remove_all(path);
    auto const made = gpt2_fp32(Strategy::single, sizes, world(), {.seed = rank() == 1 ? 8u : 7u});
    if (rank() != 1) made->save(path);
    for (Strategy const strategy : {Strategy::replicated, Strategy::sharded}) {
        auto const run = gpt2_fp32(strategy, sizes, world(), {});
        CHECK_THROWS_WITH_AS(run->load(path), doctest::Contains("rank 1: "), lockstep::Error);
    }
    if (rank() == 1) made->save(path);
    for (Strategy const strategy : {Strategy::replicated, Strategy::sharded}) {
        auto const run = gpt2_fp32(strategy, sizes, world(), {});
        CHECK_THROWS_WITH_AS(run->load(path), doctest::Contains("rank 1 differs from "), lockstep::Error);
    }
    std::filesystem::remove_all(path);
}

}  // namespace weights_test
