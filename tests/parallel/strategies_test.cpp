// Strategies at work on gradients that are written down here: the verbs of a step without a model.

#include <doctest/doctest.h>

#include <bit>
#include <chrono>
#include <thread>

#include "../train/cases.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/ordered_sum.hpp"
#include "lockstep/nn/declaration.hpp"
#include "lockstep/parallel/hybrid_sharded.hpp"
#include "lockstep/parallel/replicated.hpp"
#include "lockstep/parallel/sharded.hpp"
#include "lockstep/parallel/sharded_optimizer.hpp"

namespace strategies_test {

using namespace lockstep;
using namespace lockstep::parallel;

static_assert(communicator<comm::Communicator>);
static_assert(strategy<Replicated<>> && strategy<Sharded<>> && strategy<Sharded<>, precision::Bf16>);
static_assert(splits<comm::Communicator> && strategy<ShardedOptimizer<>> && strategy<HybridSharded<>>);

std::vector<state::Unit> make_units(bool tiny, state::Layout layout = {}) {
    std::vector<state::Unit> units;
    for (std::size_t u = 0; u < 4; ++u) {
        state::Unit     unit{.name = u == 0 ? "root" : "h", .parameters = {}, .size = 0, .root = u == 0};
        nn::Declaration declaration(unit, layout);
        declaration.vector("a", tiny ? 1 : 37, {});
        if (!tiny) declaration.matrix("m", 11, 13, {});
        if (!tiny) declaration.vector("b", u == 0 ? 101 : 5, {});
        units.push_back(unit);
    }
    return units;
}

/// Contribution of a rank in a micro-step: all magnitudes, so that the order of a sum shows.
float contribution(std::size_t r, std::size_t micro_step, std::size_t unit, std::size_t i) {
    RandomKey const key{r, static_cast<std::uint32_t>(unit), static_cast<std::uint32_t>(micro_step)};
    return static_cast<float>(random_normal(key, i) * std::exp2(static_cast<double>(random_bits(key, i + 1000) % 20)));
}

constexpr comm::Progress policies[]{comm::Progress::thread, comm::Progress::inside};

/// Two steps of the given micro-steps: what the owned parts add up to, assembled on every rank. With a `dawdle` that is not 0 ranks
/// sleep here and there, each in its own places.
template <class Strategy>
std::vector<float> gradients(Options const& options, std::size_t micro_steps, bool tiny = false, std::size_t dawdle = 0) {
    std::size_t place = 0;
    auto const  maybe = [&] {
        std::uint32_t const draw = random_bits({dawdle, 1, static_cast<std::uint32_t>(rank())}, place++);
        if (dawdle != 0 && draw % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(draw / 4 % 3000));
    };
    auto const                                                               units = make_units(tiny);
    typename Strategy::template Bound<precision::Fp32, tensor::ArenaStorage> bound(world(), units, options);
    state::Readiness                                                         readiness(units, bound.buckets());
    std::vector<float>                                                       result;
    for (std::size_t step = 0; step < 2; ++step) {
        for (std::size_t u = 0; u < units.size(); ++u) {
            auto const owned = bound.owned(u);
            for (std::size_t i = 0; i < owned.range.size(); ++i)
                owned.weights[i] = static_cast<float>(1000 * u + owned.range.begin + i + step);
        }
        bound.publish();
        for (std::size_t m = 0; m < micro_steps; ++m) {
            auto const check_weights = [&](std::size_t u, Phase phase) {
                maybe();
                auto const weights = bound.acquire(u, phase).forward;
                REQUIRE(weights.size() == units[u].size);
                bool right = true;
                for (std::size_t i = 0; i < weights.size(); ++i) right = right && weights[i] == static_cast<float>(1000 * u + i + step);
                CHECK(right);
            };
            for (std::size_t u = 0; u < units.size(); ++u) {
                check_weights(u, Phase::forward);
                bound.release(u, Phase::forward);
            }
            readiness.restart();
            for (std::size_t u = units.size(); u-- > 0;) {
                check_weights(u, Phase::backward);
                auto const buffer = bound.gradients(u);
                maybe();
                for (std::size_t p = units[u].parameters.size(); p-- > 0;) {
                    Range const range = units[u].parameters[p].range();
                    for (std::size_t i = range.begin; i < range.end; ++i) buffer[i] += contribution(rank(), step * 10 + m, u, i);
                    if (!bound.reduces_each_micro_step() && m + 1 < micro_steps) continue;
                    if (auto const bucket = readiness.contributed(u, p)) bound.reduce(*bucket);
                }
                bound.release(u, Phase::backward);
            }
        }
        bound.wait();
        for (std::size_t u = 0; u < units.size(); ++u) {
            auto const         owned = bound.owned(u);
            std::vector<float> whole(units[u].size);
            std::copy(owned.gradients.begin(), owned.gradients.end(), whole.begin() + static_cast<std::ptrdiff_t>(owned.range.begin));
            bound.assemble(u, std::span(whole));
            result.insert(result.end(), whole.begin(), whole.end());
            std::fill(owned.gradients.begin(), owned.gradients.end(), 0.0f);
        }
        bound.publish();
    }
    return result;
}

/// The same, serially: each rank adds up its micro-steps, then the ranks are added as a binary tree.
std::vector<float> expected_gradients(std::size_t micro_steps, bool tiny = false) {
    auto const         units = make_units(tiny);
    std::vector<float> result;
    for (std::size_t step = 0; step < 2; ++step)
        for (std::size_t u = 0; u < units.size(); ++u)
            for (std::size_t i = 0; i < units[u].size; ++i) {
                std::vector<float> x(ranks());
                for (std::size_t r = 0; r < ranks(); ++r)
                    for (std::size_t m = 0; m < micro_steps; ++m) x[r] += contribution(r, step * 10 + m, u, i);
                for (std::size_t s = 1; s < ranks(); s *= 2)
                    for (std::size_t r = 0; r + s < ranks(); r += 2 * s) x[r] += x[r + s];
                result.push_back(x[0]);
            }
    return result;
}

TEST_CASE("Replicated sums in the order of a tree over the ranks, whatever the buckets, the overlap, and who makes progress") {
    for (std::size_t micro_steps : {1u, 3u}) {
        auto const expected = expected_gradients(micro_steps);
        for (auto const progress : policies)
            for (std::size_t bucket : {std::size_t{0}, std::size_t{512}, std::size_t{64} << 10, std::size_t{25} << 20})
                for (bool const overlap : {true, false})
                    CHECK(gradients<Replicated<>>({.bucket_bytes       = bucket,
                                                   .first_bucket_bytes = bucket / 3,
                                                   .overlap            = overlap,
                                                   .progress           = progress,
                                                   .in_flight          = 1 + bucket % 3,
                                                   .chunk_bytes        = bucket == 512 ? std::size_t{100} : std::size_t{1} << 18},
                                                  micro_steps) == expected);
    }
}

TEST_CASE("Sharded with local accumulation has the same bits, whatever is gathered when, and by whom") {
    for (std::size_t micro_steps : {1u, 3u}) {
        auto const expected = expected_gradients(micro_steps);
        for (auto const progress : policies)
            for (std::size_t prefetch : {0u, 1u, 9u})
                for (auto const reshard : {Reshard::always, Reshard::never, Reshard::keep_last})
                    for (bool const overlap : {true, false})
                        CHECK(gradients<Sharded<>>({.prefetch    = prefetch,
                                                    .reshard     = reshard,
                                                    .kept        = 2,
                                                    .overlap     = overlap,
                                                    .accumulate  = Accumulate::local,
                                                    .progress    = progress,
                                                    .in_flight   = 1 + prefetch % 2,
                                                    .chunk_bytes = prefetch == 1 ? std::size_t{60} : std::size_t{1} << 18},
                                                   micro_steps) == expected);
    }
}

TEST_CASE("ranks that dawdle at different places change nothing") {
    auto const expected = expected_gradients(3);
    for (auto const progress : policies)
        for (std::size_t round = 0; round < 3; ++round) {
            Options const options{.bucket_bytes = 512, .progress = progress, .chunk_bytes = 200};
            CHECK(gradients<Replicated<>>(options, 3, false, 1 + round) == expected);
            Options local    = options;
            local.accumulate = Accumulate::local;
            CHECK(gradients<Sharded<>>(local, 3, false, 1 + round) == expected);
        }
}

TEST_CASE("the vendor's reductions come close, and gathers are the same") {
    auto const expected = expected_gradients(3);
    for (auto const progress : policies)
        for (bool const sharded : {false, true}) {
            Options const options{
                .bucket_bytes = 512, .accumulate = Accumulate::local, .reduction = comm::Reduction::vendor, .progress = progress};
            auto const found = sharded ? gradients<Sharded<>>(options, 3) : gradients<Replicated<>>(options, 3);
            REQUIRE(found.size() == expected.size());
            for (std::size_t i = 0; i < found.size(); ++i)
                if (std::abs(found[i] - expected[i]) >= 4.0f) FAIL_CHECK("found ", found[i], ", expected about ", expected[i]);
        }
    CHECK_THROWS_WITH_AS(gradients<Replicated<>>({.wire = comm::Wire::bf16, .reduction = comm::Reduction::vendor}, 1),
                         doctest::Contains("fp32 wire"), Error);
}

TEST_CASE("the pools have the size of their formulas") {
    auto const units = make_units(false);
    for (std::size_t prefetch : {0u, 1u, 2u, 9u})
        for (auto const reshard : {Reshard::always, Reshard::never, Reshard::keep_last})
            for (auto const accumulate : {Accumulate::local, Accumulate::sharded})
                for (bool const overlap : {true, false}) {
                    Options const                                           options{.prefetch   = prefetch,
                                                                                    .reshard    = reshard,
                                                                                    .kept       = 2,
                                                                                    .overlap    = overlap,
                                                                                    .accumulate = accumulate,
                                                                                    .in_flight  = 1 + prefetch % 2};
                    auto const&                                             gathered  = observe::ledger()[observe::Category::gathered].now;
                    auto const&                                             gradients = observe::ledger()[observe::Category::gradients].now;
                    std::size_t const                                       before = gathered, gradients_before = gradients;
                    Sharded<>::Bound<precision::Bf16, tensor::ArenaStorage> bound(world(), units, options);
                    std::size_t                                             shards = 0;
                    for (std::size_t u = 0; u < units.size(); ++u) shards += bound.owned(u).range.size();
                    CHECK(gathered - before == 2 * gathered_elements(units, options));
                    CHECK(gradients - gradients_before == 4 * (shards + full_gradient_elements(units, options)));
                }
    // 3 blocks: those in use and ahead, those kept, or all.
    CHECK(gathered_blocks({.prefetch = 1}, 3) == 2);
    CHECK(gathered_blocks({.prefetch = 1, .overlap = false}, 3) == 1);
    CHECK(gathered_blocks({.prefetch = 7}, 3) == 3);
    CHECK(gathered_blocks({.reshard = Reshard::never}, 3) == 3);
    CHECK(gathered_blocks({.prefetch = 0, .reshard = Reshard::keep_last, .kept = 2}, 3) == 2);
    CHECK(gathered_blocks({.prefetch = 1, .reshard = Reshard::keep_last, .kept = 1}, 3) == 2);
}

TEST_CASE("the blocks that backward reads first need not be gathered again where they are kept") {
    auto const units = make_units(false);
    auto const bytes = [&](Reshard reshard, std::size_t kept) {
        Sharded<>::Bound<precision::Fp32, tensor::ArenaStorage> bound(world(), units, {.prefetch = 0, .reshard = reshard, .kept = kept});
        for (std::size_t i = 0; i < 2 * units.size(); ++i) {
            std::size_t const u     = i < units.size() ? i : 2 * units.size() - 1 - i;
            Phase const       phase = i < units.size() ? Phase::forward : Phase::backward;
            bound.acquire(u, phase);
            bound.release(u, phase);
        }
        bound.wait();
        return bound.bytes_sent();
    };
    std::size_t const block = bytes(Reshard::keep_last, 1) - bytes(Reshard::keep_last, 2);
    CHECK(bytes(Reshard::keep_last, 1) == bytes(Reshard::always, 0));
    CHECK(bytes(Reshard::keep_last, 3) == bytes(Reshard::never, 0));
    if (ranks() > 1) CHECK(block > 0);
    CHECK(bytes(Reshard::keep_last, 2) - bytes(Reshard::keep_last, 3) == block);
}

TEST_CASE("the progress policy is what was asked for, and has a name") {
    auto const units = make_units(true);
    for (auto const progress : policies) {
        Replicated<>::Bound<precision::Fp32, tensor::ArenaStorage> replicated(world(), units, {.progress = progress});
        Sharded<>::Bound<precision::Fp32, tensor::ArenaStorage>    sharded(world(), units, {.progress = progress});
        CHECK(replicated.progress() == comm::name(progress));
        CHECK(sharded.progress() == comm::name(progress));
    }
    CHECK(choose_progress(world(), comm::Progress::automatic) != comm::Progress::automatic);
    if (world().size() == 1) CHECK(choose_progress(world(), comm::Progress::automatic) == comm::Progress::inside);
}

TEST_CASE("a strategy that waits too long for another rank says for what") {
    if (ranks() == 1) return;
    auto const units = make_units(false);
    for (auto const progress : policies) {
        Sharded<>::Bound<precision::Fp32, tensor::ArenaStorage> bound(world(), units, {.progress = progress, .timeout = 0.2});
        if (rank() != 0)
            CHECK_THROWS_WITH_AS(bound.acquire(2, Phase::forward), doctest::Contains("s for the AllGather of unit 2 ("), Error);
    }
    world().barrier();
}

TEST_CASE("Sharded that adds up in the shards is the same with one micro-step and close with several") {
    CHECK(gradients<Sharded<>>({}, 1) == expected_gradients(1));
    auto const found = gradients<Sharded<>>({}, 3), expected = expected_gradients(3);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - expected[i]) < 4.0f);  // terms go up to 2^21
    CHECK(gradients<Sharded<>>({.prefetch = 0, .reshard = Reshard::never, .overlap = false}, 3) == found);
}

TEST_CASE("units smaller than the number of ranks leave shards empty") {
    auto const expected = expected_gradients(2, true);
    CHECK(gradients<Replicated<>>({}, 2, true) == expected);
    CHECK(gradients<Sharded<>>({.accumulate = Accumulate::local}, 2, true) == expected);
    CHECK(gradients<Sharded<>>({}, 1, true) == expected_gradients(1, true));
}

TEST_CASE("on a bf16 wire each contribution is rounded once and sums are fp32") {
    auto const units    = make_units(false);
    auto const expected = [&] {
        std::vector<float> result;
        for (std::size_t step = 0; step < 2; ++step)
            for (std::size_t u = 0; u < units.size(); ++u)
                for (std::size_t i = 0; i < units[u].size; ++i) {
                    std::vector<float> x(ranks());
                    for (std::size_t r = 0; r < ranks(); ++r) x[r] = precision::bfloat16(contribution(r, step * 10, u, i));
                    for (std::size_t s = 1; s < ranks(); s *= 2)
                        for (std::size_t r = 0; r + s < ranks(); r += 2 * s) x[r] += x[r + s];
                    result.push_back(x[0]);
                }
        return result;
    }();
    CHECK(gradients<Replicated<>>({.wire = comm::Wire::bf16}, 1) == expected);
    CHECK(gradients<Sharded<>>({.wire = comm::Wire::bf16}, 1) == expected);
    CHECK(gradients<ShardedOptimizer<>>({.wire = comm::Wire::bf16}, 1) == expected);
    for (std::size_t group = 1; group <= ranks(); ++group)
        if (ranks() % group == 0) CHECK(gradients<HybridSharded<>>({.wire = comm::Wire::bf16, .shard_group = group}, 1) == expected);
}

TEST_CASE("ShardedOptimizer has the same bits, whoever makes progress, and its gradients are clear but for the shard") {
    for (std::size_t micro_steps : {1u, 3u}) {
        auto const expected = expected_gradients(micro_steps);
        for (auto const progress : policies)
            for (bool const overlap : {true, false})
                CHECK(gradients<ShardedOptimizer<>>({.overlap     = overlap,
                                                     .progress    = progress,
                                                     .in_flight   = overlap ? 2u : 1u,
                                                     .chunk_bytes = overlap ? std::size_t{60} : std::size_t{1} << 18},
                                                    micro_steps) == expected);
    }
    CHECK(gradients<ShardedOptimizer<>>({}, 2, true) == expected_gradients(2, true));
    for (std::size_t dawdle : {1u, 2u})
        CHECK(gradients<ShardedOptimizer<>>({.chunk_bytes = 200}, 3, false, dawdle) == expected_gradients(3));
}

/// Sizes of groups that divide the ranks.
std::vector<std::size_t> group_sizes() {
    std::vector<std::size_t> sizes;
    for (std::size_t k = 1; k <= ranks(); ++k)
        if (ranks() % k == 0) sizes.push_back(k);
    return sizes;
}

TEST_CASE("HybridSharded has the same bits for every size of group, power of two or not") {
    for (std::size_t const group : group_sizes()) {
        CAPTURE(group);
        for (auto const progress : policies) {
            bool const thread = progress == comm::Progress::thread;
            CHECK(gradients<HybridSharded<>>({.prefetch    = thread ? 2u : 0u,
                                              .reshard     = thread ? Reshard::always : Reshard::never,
                                              .accumulate  = Accumulate::local,
                                              .progress    = progress,
                                              .shard_group = group,
                                              .in_flight   = thread ? 3u : 1u,
                                              .chunk_bytes = thread ? std::size_t{60} : std::size_t{1} << 18},
                                             3) == expected_gradients(3));
        }
        Options const local{.accumulate = Accumulate::local, .shard_group = group};
        CHECK(gradients<HybridSharded<>>(local, 2, true) == expected_gradients(2, true));
        CHECK(gradients<HybridSharded<>>(local, 3, false, 5) == expected_gradients(3));
        CHECK(gradients<HybridSharded<>>({.overlap = false, .shard_group = group}, 1) == expected_gradients(1));
        CHECK(gradients<HybridSharded<>>({.shard_group = group}, 3) == gradients<Sharded<>>({}, 3));
    }
    CHECK_THROWS_WITH_AS(gradients<HybridSharded<>>({.shard_group = ranks() + 1}, 1),
                         doctest::Contains("shard_group: expected a divisor of the "), Error);
}

TEST_CASE("where the vendor sums, the new strategies come close too") {
    auto const expected = expected_gradients(3);
    auto const check    = [&](std::vector<float> const& found) {
        REQUIRE(found.size() == expected.size());
        for (std::size_t i = 0; i < found.size(); ++i)
            if (std::abs(found[i] - expected[i]) >= 4.0f) FAIL_CHECK("found ", found[i], ", expected about ", expected[i]);
    };
    for (auto const progress : policies) {
        check(gradients<ShardedOptimizer<>>({.reduction = comm::Reduction::vendor, .progress = progress}, 3));
        for (std::size_t const group : group_sizes())
            check(gradients<HybridSharded<>>({.accumulate  = Accumulate::local,
                                              .reduction   = comm::Reduction::vendor,
                                              .progress    = progress,
                                              .shard_group = group,
                                              .in_flight   = 3},
                                             3));
    }
}

TEST_CASE("the bytes of a bucket are those of each step of its reduction") {
    auto const units = make_units(false);
    auto const sent  = [&]<class Strategy>(Strategy, Options const& options) {
        typename Strategy::template Bound<precision::Fp32, tensor::ArenaStorage> bound(world(), units, options);
        bound.gradients(3);
        bound.reduce(0);
        bound.wait();
        return bound.bytes_sent();
    };
    std::size_t const size = units[3].size, shard = state::shards(units[3], ranks())[rank()].size();
    CHECK(sent(ShardedOptimizer<>{}, {}) == 4 * (size - shard));
    CHECK(sent(Sharded<>{}, {}) == 4 * (size - shard));
    CHECK(sent(Sharded<>{}, {.wire = comm::Wire::bf16}) == 2 * (size - shard));
    for (std::size_t const group : group_sizes()) {
        std::size_t const groups = ranks() / group, mine = state::shards(units[3], group)[rank() % group].size();
        std::size_t const part    = state::even_ranges({0, mine}, groups)[rank() / group].size();
        std::size_t const between = groups == 1 ? 0 : mine - part + part * (groups - 1);
        bool const        tree    = (group & (group - 1)) == 0;  // a power of two
        for (auto const wire : {comm::Wire::fp32, comm::Wire::bf16}) {
            std::size_t const element = wire == comm::Wire::bf16 ? 2 : 4;  // sums between groups are never rounded
            CHECK(sent(HybridSharded<>{}, {.wire = wire, .shard_group = group}) ==
                  (tree || groups == 1 ? element * (size - mine) + 4 * between : element * (groups * size - mine)));
        }
    }
}

/// A step in which each copy of the weights is written with numbers of its own.
template <class Strategy>
void check_two_copies(Options const& options, bool recompute) {
    auto units = make_units(false, {.panel_rows = 4, .tile_columns = 2, .paired_weights = true});
    for (std::size_t u = 0; u < units.size(); ++u) units[u].backward_computes = u == 0 || recompute;
    typename Strategy::template Bound<precision::Bf16, tensor::ArenaStorage> bound(world(), units, options);
    auto const                                                               number = [](std::size_t copy, std::size_t u, std::size_t i) {
        return precision::bfloat16(static_cast<float>(i % 50 + 50 * u) * (copy == 0 ? 1.0f : -1.0f));
    };
    for (std::size_t u = 0; u < units.size(); ++u) {
        auto const owned = bound.owned(u);
        REQUIRE(owned.weights_paired.size() == owned.range.size());
        for (std::size_t i = 0; i < owned.range.size(); ++i) {
            owned.weights[i]        = number(0, u, owned.range.begin + i);
            owned.weights_paired[i] = number(1, u, owned.range.begin + i);
        }
    }
    bound.publish();
    auto const check_copy = [&](auto values, std::size_t copy, std::size_t u) {
        REQUIRE(values.size() == units[u].size);
        bool right = true;
        for (std::size_t i = 0; i < values.size(); ++i) right = right && float(values[i]) == float(number(copy, u, i));
        CHECK(right);
    };
    for (auto const phase : {Phase::forward, Phase::backward})
        for (std::size_t i = 0; i < units.size(); ++i) {
            std::size_t const u       = phase == Phase::forward ? i : units.size() - 1 - i;
            auto const        weights = bound.acquire(u, phase);
            if (phase == Phase::forward || units[u].backward_computes) check_copy(weights.forward, 0, u);
            if (phase == Phase::backward) check_copy(weights.input_grad, 1, u);
            bound.release(u, phase);
        }
    bound.wait();
}

TEST_CASE("two copies of the weights arrive where they are read") {
    for (bool const recompute : {false, true})
        for (std::size_t prefetch : {0u, 1u, 9u})
            for (auto const reshard : {Reshard::always, Reshard::never}) {
                check_two_copies<Replicated<>>({.prefetch = prefetch, .reshard = reshard}, recompute);
                check_two_copies<Sharded<>>({.prefetch = prefetch, .reshard = reshard}, recompute);
                if (prefetch == 0) check_two_copies<ShardedOptimizer<>>({.overlap = reshard == Reshard::always}, recompute);
                if (prefetch == 1) check_two_copies<HybridSharded<>>({.reshard = reshard, .shard_group = 1}, recompute);
            }
}

/// How many ranks own each element of the units, and how many count it.
struct Holders {
    std::vector<std::int64_t> owned, counted;
};
template <class Strategy>
Holders holders(std::vector<state::Unit> const& units, Options const& options = {}) {
    typename Strategy::template Bound<precision::Bf16, tensor::ArenaStorage> bound(world(), units, options);
    auto const                                                               offsets = state::unit_offsets(units);
    Holders result{std::vector<std::int64_t>(offsets.back()), std::vector<std::int64_t>(offsets.back())};
    for (std::size_t u = 0; u < units.size(); ++u) {
        auto const mine = bound.owned(u);
        CHECK(mine.weights.size() == mine.range.size());
        CHECK(mine.gradients.size() == mine.range.size());
        for (std::size_t i = mine.range.begin; i < mine.range.end; ++i) ++result.owned[offsets[u] + i];
        for (std::size_t i = mine.counted.begin; i < mine.counted.end; ++i) ++result.counted[offsets[u] + i];
    }
    world().all_reduce(result.owned);
    world().all_reduce(result.counted);
    return result;
}

TEST_CASE("every element is counted by one rank, and owned by as many as there are copies of the model") {
    for (bool const tiny : {false, true}) {
        auto const                      units = make_units(tiny, tiny ? state::Layout{} : state::Layout{4, 2});
        std::vector<std::int64_t> const ones(state::unit_offsets(units).back(), 1);
        auto const                      check = [&](Holders const& found, std::size_t copies) {
            CHECK(found.owned == std::vector<std::int64_t>(ones.size(), static_cast<std::int64_t>(copies)));
            CHECK(found.counted == ones);
        };
        check(holders<Replicated<>>(units), ranks());
        check(holders<ShardedOptimizer<>>(units), 1);
        check(holders<Sharded<>>(units), 1);
        for (std::size_t const group : group_sizes()) check(holders<HybridSharded<>>(units, {.shard_group = group}), ranks() / group);
    }
}

TEST_CASE("each rank holds what the table says of its strategy, to the byte") {
    using observe::Category;
    auto const units = make_units(false);
    auto const now   = [](Category category) { return observe::ledger()[category].now.load(); };
    auto const held  = [&]<class Strategy>(Strategy, Options const& options) {
        std::size_t const parameters = now(Category::parameters), gradients = now(Category::gradients);
        typename Strategy::template Bound<precision::Bf16, tensor::ArenaStorage> bound(world(), units, options);
        return std::pair{now(Category::parameters) - parameters, now(Category::gradients) - gradients};
    };
    std::size_t const all    = state::unit_offsets(units).back();
    auto const        shards = [&](std::size_t group) {
        std::size_t sum = 0;
        for (auto const& unit : units) sum += state::shards(unit, group)[rank() % group].size();
        return sum;
    };
    CHECK(held(Replicated<>{}, {}) == std::pair{2 * all, 4 * all});
    CHECK(held(ShardedOptimizer<>{}, {}) == std::pair{2 * all, 4 * all});
    for (std::size_t const group : group_sizes()) {
        Options const options{.shard_group = group};
        CHECK(held(HybridSharded<>{}, options) ==
              std::pair{2 * shards(group), 4 * (shards(group) + full_gradient_elements(units, options))});
    }
}

}  // namespace strategies_test
