// All ranks hold the same, or an error says which one does not.

#include "lockstep/train/agreement.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "lockstep/optim/adamw.hpp"
#include "run.hpp"

namespace agreement_test {

using lockstep::Error;

/// The sentence of the error that the body raises.
template <class Body>
std::string raised(Body&& body, lockstep::Fault fault = lockstep::Fault::peer) {
    try {
        body();
    } catch (Error const& error) {
        CHECK(error.fault() == fault);
        return error.what();
    }
    return "nothing was raised";
}

bool says(std::string const& sentence, std::string const& part) { return sentence.find(part) != std::string::npos; }

/// What a rank differs from.
std::string rest() { return ranks() == 2 ? "rank 0" : "the others"; }

bool names_rank(std::string const& sentence, std::size_t rank) {
    return says(sentence, "rank " + std::to_string(rank) + " differs from " + rest());
}

TEST_CASE("TRAPS 26: a rank started from another seed is named by every rank") {
    for (Strategy const strategy : {Strategy::replicated, Strategy::sharded_optimizer, Strategy::hybrid})
        for (std::size_t odd = 1; odd < ranks(); ++odd) {
            auto const found =
                raised([&] { scripted_fp32(strategy, scripted_sizes(3, 2, 2), world(), {.seed = rank() == odd ? 1u : 2u}); });
            CHECK(found == "seed: rank " + std::to_string(odd) + " has 1, rank 0 has 2; all ranks must have the same");
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

TEST_CASE("TRAPS 26: one flipped bit of a shard is found where other groups hold the same") {
    for (std::size_t group = 1; group < ranks(); ++group) {
        if (ranks() % group != 0) continue;
        RunOptions options;
        options.strategy.shard_group = group;
        for (std::size_t odd = group; odd < ranks(); ++odd) {
            auto const run = scripted_fp32(Strategy::hybrid, scripted_sizes(8, 2, 8), world(), options);
            CHECK_NOTHROW(run->check_replicas());
            if (rank() == odd) run->flip_bit();
            auto const found = raised([&] { run->check_replicas(); });
            CHECK(says(found, "the ranks do not hold the same checksum of the parameters: rank " + std::to_string(odd) + " differs from "));
        }
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

TEST_CASE("an option that must be the same on all ranks is named, with its values") {
    auto const differing = [&](auto const& change) {
        RunOptions options;
        if (rank() == ranks() - 1) change(options);
        return raised([&] { scripted_fp32(Strategy::sharded, scripted_sizes(3, 2, 2), world(), options); });
    };
    auto const check = [&](std::string const& name, std::string const& odd, std::string const& usual, auto const& change) {
        std::string const last = std::to_string(ranks() - 1);
        CHECK(differing(change) == name + ": rank " + last + " has " + odd + ", rank 0 has " + usual + "; all ranks must have the same");
    };
    using namespace lockstep::parallel;
    check("max_norm", "0.1", "0", [](RunOptions& o) { o.max_norm = 0.1; });
    check("prefetch", "2", "1", [](RunOptions& o) { o.strategy.prefetch = 2; });
    check("reshard", "1", "0", [](RunOptions& o) { o.strategy.reshard = Reshard::never; });
    check("accumulate", "0", "none", [](RunOptions& o) { o.strategy.accumulate = Accumulate::local; });
    check("wire", "1", "none", [](RunOptions& o) { o.strategy.wire = lockstep::comm::Wire::bf16; });
    check("loss_scale.initial", "2", "65536", [](RunOptions& o) { o.loss_scale.initial = 2; });
    check("first_bucket_bytes", "64", "1048576", [](RunOptions& o) { o.strategy.first_bucket_bytes = 64; });
    check("layout.panel_rows", "4", "1", [](RunOptions& o) { o.model.layout = {.panel_rows = 4}; });
}

TEST_CASE("kernels that differ are named, and shared where ranks ask for it") {
    using lockstep::kernel::Isa;
    Isa const before = lockstep::kernel::isa(), other = before == Isa::simd ? Isa::avx512 : Isa::simd;
    if (!lockstep::kernel::available(other)) return;
    if (rank() == ranks() - 1) lockstep::kernel::use(other);
    auto const found = raised([&] { scripted_fp32(Strategy::sharded, scripted_sizes(3, 2, 2), world(), {}); });
    CHECK(found == "kernels: rank " + std::to_string(ranks() - 1) + " has " + std::string(name(other)) + ", rank 0 has " +
                       std::string(name(before)) + "; all ranks must have the same");
    CHECK(lockstep::share_kernels(world()) == std::min(before, other));
    CHECK(lockstep::kernel::isa() == std::min(before, other));
    CHECK_NOTHROW(scripted_fp32(Strategy::sharded, scripted_sizes(3, 2, 2), world(), {}));
    lockstep::kernel::use(before);
}

TEST_CASE("work of rank 0 on files may last longer than ranks wait for each other") {
    auto const short_wait = world().with_timeout(1);
    bool       done       = false;
    lockstep::on_first_rank_at_length(short_wait, [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(2500));
        done = true;
    });
    CHECK(done == (rank() == 0));
    bool const slow = rank() + 1 == ranks();
    done            = false;
    lockstep::together_at_length(short_wait, [&] {
        if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
        done = true;
    });
    CHECK(done);
    auto const of_one = raised(
        [&] {
            lockstep::together_at_length(short_wait, [&] {
                if (slow) lockstep::input_error("a file is cut");
            });
        },
        lockstep::Fault::input);
    CHECK(of_one == (ranks() == 1 ? "" : "rank " + std::to_string(ranks() - 1) + ": ") + "a file is cut");
    auto const refuse = [] { lockstep::input_error("a file: expected another one, found this"); };
    auto const found  = raised([&] { lockstep::on_first_rank_at_length(short_wait, refuse); }, lockstep::Fault::input);
    CHECK(found == "a file: expected another one, found this");
}

TEST_CASE("of several ranks that differ all are named") {
    if (ranks() < 4) return;
    auto const found = raised([&] { lockstep::agree(world(), std::uint64_t{rank() % 2 == 0 ? 7u : rank()}, "number"); });
    CHECK(found == "the ranks do not hold the same number: ranks 1, 3 differ from the others");
    std::vector<lockstep::Setting> const settings{{"--a", "1"},
                                                  {"--b", rank() < 2 ? "a text of more than a word" : std::to_string(rank())}};
    CHECK(raised([&] { lockstep::agree(world(), settings, "advice"); }) ==
          "--b: rank 2 has 2, rank 0 has a text of more than a word; ranks 2, 3 differ from the others; advice");
    CHECK_NOTHROW(lockstep::agree(world(), std::uint64_t{5}, "number"));
}

TEST_CASE("ranks that bring the same sequences, or not as many micro-steps, are named in the first step") {
    Rows const rows = random_rows(2 * ranks(), 9, 19, 1);
    auto const made = [] {
        return gpt2_fp32(Strategy::sharded, {.layers = 1, .heads = 3, .kv_heads = 3, .dim = 12, .ffn = 20, .vocab = 19, .sequence = 9},
                         world(), {.micro_batch = 1});
    };
    auto const first = std::to_string(rows.first_sample), last = std::to_string(rows.first_sample + 1);
    CHECK(raised([&] { made()->step(rows.part(0, ranks()), 0.01); }) ==
          "ranks 0 and 1 bring the same sequences: rank 0 samples " + first + " to " + last + ", rank 1 samples " + first + " to " + last +
              "; each must have its own (StreamOptions::rank and ranks, Batch::first_sample)");
    CHECK(says(raised([&] { made()->step(rank() == 1 ? rows.part(2, 2 * ranks()) : rows.mine(), 0.01); }),
               "the ranks do not hold the same number of micro-steps: rank 1 differs from " + rest()));
    CHECK_NOTHROW(made()->step(rows.mine(), 0.01));
}

TEST_CASE("a learning rate that is none is refused and changes nothing; one that differs between ranks is found in any step") {
    Rows const rows = random_rows(ranks(), 9, 19, 1);
    for (Strategy const strategy : {Strategy::replicated, Strategy::sharded_optimizer, Strategy::hybrid}) {
        auto const run =
            gpt2_fp32(strategy, {.layers = 1, .heads = 3, .kv_heads = 3, .dim = 12, .ffn = 20, .vocab = 19, .sequence = 9}, world(), {});
        run->step(rows.mine(), 0.01);
        auto const before = run->weights();
        for (double const rate : {std::nan(""), -0.5, 1e39, std::numeric_limits<double>::infinity()}) {
            try {
                run->step(rows.mine(), rate);
                CHECK_MESSAGE(false, rate);
            } catch (Error const& error) {
                CHECK(error.fault() == lockstep::Fault::input);
                CHECK(error.what() == lockstep::sentence("learning rate: expected finite and >= 0, found ", rate));
            }
            run->accumulate(rows.mine());
            CHECK_THROWS_AS(run->apply(rate), Error);
            run->apply(0);
        }
        CHECK(run->weights().size() == before.size());
        bool finite = true;
        for (double const weight : run->weights()) finite = finite && std::isfinite(weight);
        CHECK(finite);
        auto const found = raised([&] { run->step(rows.mine(), rank() == 1 ? 0.02 : 0.01); });
        CHECK_MESSAGE(says(found, "learning rate: rank 1 differs from " + rest()), found);
    }
}

TEST_CASE("work that fails on one rank is an error of all") {
    auto const fault_of = [](auto const& body) {
        try {
            body();
        } catch (Error const& error) {
            return std::pair(error.fault(), std::string(error.what()));
        }
        return std::pair(lockstep::Fault::training, std::string("nothing"));
    };
    using lockstep::Fault;
    auto const one = fault_of([] {
        lockstep::together(world(), [] {
            if (rank() == 1) lockstep::input_error("shard 1 is missing");
        });
    });
    CHECK(one == std::pair(Fault::input, std::string("rank 1: shard 1 is missing")));
    auto const all = fault_of([] { lockstep::together(world(), [] { lockstep::training_error("no way"); }); });
    CHECK(all == std::pair(Fault::training, std::string("no way")));
    auto const first = fault_of([] { lockstep::on_first_rank(world(), [] { throw std::runtime_error("full"); }); });
    CHECK(first == std::pair(Fault::peer, std::string("full")));
    CHECK_NOTHROW(lockstep::together(world(), [] {}));
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

}  // namespace agreement_test
