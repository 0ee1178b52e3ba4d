// The highest assertion level spends a collective a step on version and checksum.

#undef LOCKSTEP_ASSERTIONS
#define LOCKSTEP_ASSERTIONS 4

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "lockstep/comm/environment.hpp"
#include "lockstep/nn/gpt2.hpp"
#include "lockstep/optim/sgd.hpp"
#include "lockstep/parallel/replicated.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "lockstep/train/trainer.hpp"

namespace ls = lockstep;

TEST_CASE("with assertions at the level of communication a step notices a flipped bit and names the rank") {
    static_assert(ls::asserts(ls::Assertions::communication));
    using Trainer = ls::Trainer<ls::nn::Gpt2<ls::tensor::ArenaStorage>, ls::precision::Fp32, ls::optim::Sgd, ls::parallel::Replicated<>>;
    ls::comm::Environment mpi;
    Trainer trainer({.layers = 1, .heads = 1, .kv_heads = 1, .dim = 4, .ffn = 8, .vocab = 8, .sequence = 4}, ls::optim::Sgd{}, mpi.world(),
                    {.threads = 1});
    std::array<std::int32_t, 4> const tokens{1, 2, 3, 4}, labels{2, 3, 4, 5};
    ls::data::Batch const             batch{
                    .sequences = 1, .length = 4, .first_sample = static_cast<std::uint64_t>(mpi.world().rank()), .tokens = tokens, .labels = labels};
    CHECK(trainer.step(batch, 0.1).applied);

    if (mpi.world().rank() == mpi.world().size() - 1) {
        float& master = trainer.masters().values(1)[2];
        master        = std::bit_cast<float>(std::bit_cast<std::uint32_t>(master) ^ 0x1000u);
    }
    std::string found = "nothing was raised";
    try {
        trainer.step(batch, 0.1);
    } catch (ls::Error const& error) {
        found = error.what();
    }
    if (mpi.world().size() == 1) {
        CHECK(found == "nothing was raised");
    } else {
        CHECK_MESSAGE(found.find("checksum") != std::string::npos, found);
        CHECK_MESSAGE(found.find("rank " + std::to_string(mpi.world().size() - 1)) != std::string::npos, found);
    }
}

TEST_CASE("parameter groups and overlap belong to the configuration that ranks agree on") {
    ls::state::ModelSizes const sizes;
    ls::TrainerOptions          options;
    auto const                  digest = [&] { return ls::digest(ls::configuration(sizes, options)); };
    auto const                  usual  = digest();
    options.groups.rules               = {{.name_contains = "ln", .decays = true}};
    auto const grouped                 = digest();
    options.groups.rules[0].decays     = false;
    CHECK(usual != grouped);
    CHECK(grouped != digest());
    options                  = {};
    options.strategy.overlap = false;
    CHECK(usual != digest());
}
