// All ranks hold the same, or an error says which one does not.

#include "lockstep/train/agreement.hpp"

#include <doctest/doctest.h>

#include <string>

#include "cases.hpp"
#include "lockstep/optim/adamw.hpp"
#include "run.hpp"

using lockstep::Error;

namespace {

/// The sentence of the error that the body raises.
template <class Body>
std::string raised(Body&& body) {
    try {
        body();
    } catch (Error const& error) {
        CHECK(error.fault() == lockstep::Fault::peer);
        return error.what();
    }
    return "nothing was raised";
}

bool names_rank(std::string const& sentence, std::size_t rank) {
    return sentence.find("rank " + std::to_string(rank) + " of") != std::string::npos;
}

}  // namespace

TEST_CASE("TRAPS 26: a rank started from another seed is named by every rank") {
    for (Strategy const strategy : {Strategy::replicated, Strategy::sharded})
        for (std::size_t odd = 1; odd < ranks(); ++odd) {
            auto const found =
                raised([&] { scripted_fp32(strategy, scripted_sizes(3, 2, 2), world(), {.seed = rank() == odd ? 1u : 2u}); });
            CHECK(found.find("configuration") != std::string::npos);
            CHECK_MESSAGE(names_rank(found, odd), found);
        }
}

TEST_CASE("TRAPS 26: one flipped bit of one replica is found and its rank named") {
    for (std::size_t odd = 1; odd < ranks(); ++odd) {
        auto const run = scripted_fp32(Strategy::replicated, scripted_sizes(3, 2, 2), world(), {});
        CHECK_NOTHROW(run->check_replicas());
        if (rank() == odd) run->flip_bit();
        auto const found = raised([&] { run->check_replicas(); });
        CHECK(found.find("checksum") != std::string::npos);
        CHECK_MESSAGE(names_rank(found, odd), found);
    }
}

TEST_CASE("TRAPS 26: replicas hold equal weights after construction and after steps") {
    for (Strategy const strategy : strategies) {
        auto const run = gpt2_fp32(strategy, {.layers = 2, .heads = 3, .kv_heads = 3, .dim = 12, .ffn = 20, .vocab = 19, .sequence = 9},
                                   world(), {.model = {.dropout = 0.1f}});
        CHECK_NOTHROW(run->check_replicas());
        for (std::uint64_t s = 0; s < 2; ++s) {
            Rows const rows = random_rows(ranks(), 9, 19, s);
            run->step(strategy == Strategy::single ? rows.all() : rows.mine(), 0.01);
        }
        CHECK_NOTHROW(run->check_replicas());
    }
}

TEST_CASE("ranks that disagree in an option that must be the same are named") {
    auto const differing = [&](auto const& change) {
        RunOptions options;
        if (rank() == ranks() - 1) change(options);
        return raised([&] { scripted_fp32(Strategy::sharded, scripted_sizes(3, 2, 2), world(), options); });
    };
    using namespace lockstep::parallel;
    for (auto const& found : {differing([](RunOptions& o) { o.max_norm = 7; }), differing([](RunOptions& o) { o.strategy.prefetch = 2; }),
                              differing([](RunOptions& o) { o.strategy.reshard = Reshard::never; }),
                              differing([](RunOptions& o) { o.strategy.accumulate = Accumulate::local; }),
                              differing([](RunOptions& o) { o.strategy.wire = lockstep::comm::Wire::bf16; }),
                              differing([](RunOptions& o) { o.loss_scale.initial = 2; }),
                              differing([](RunOptions& o) { o.strategy.first_bucket_bytes = 64; }), differing([](RunOptions& o) {
                                  o.model.layout = {4, 3, true};
                              })})
        CHECK_MESSAGE(names_rank(found, ranks() - 1), found);
}

TEST_CASE("an optimizer with other options has another digest") {
    using lockstep::behaviour_digest;
    using lockstep::optim::AdamW;
    auto const usual = behaviour_digest<AdamW, float>(AdamW{});
    CHECK(usual == behaviour_digest<AdamW, float>(AdamW{}));
    CHECK(usual != behaviour_digest<AdamW, float>(AdamW{.beta2 = 0.999}));
    CHECK(usual != behaviour_digest<AdamW, float>(AdamW{.epsilon = 1e-3}));
    CHECK(usual != behaviour_digest<AdamW, float>(AdamW{.weight_decay = 0}));
}
