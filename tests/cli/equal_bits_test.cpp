// For a fixed number of ranks the exported weights are the same bytes, whatever the strategy, buckets, prefetch, reshard, units, progress
// and threads.

#include <cstdlib>
#include <iterator>
#include <vector>

#include "program.hpp"

namespace equal_bits_test {

using namespace lockstep::test;

struct Way {
    char const *strategy, *bucket, *prefetch, *reshard, *threads, *overlap;
    int         group       = 0;  // of hybrid
    char const* unit_blocks = "1";
    char const* progress    = "auto";
};

// Buckets of one tensor, 64 KiB, 25 MB. Every pair of values of two columns is in some row of the strategies that read both.
constexpr Way ways[]{
    {"replicated", "0", "1", "always", "1", "on"},
    {"replicated", "0", "0", "never", "2", "off"},
    {"replicated", "0.0625", "1", "always", "2", "on", 0, "1", "thread"},
    {"replicated", "0.0625", "2", "never", "1", "off", 0, "2"},
    {"replicated", "25", "1", "always", "1", "off"},
    {"replicated", "25", "0", "never", "2", "on", 0, "0"},
    {"sharded", "0", "0", "always", "1", "on"},
    {"sharded", "0", "1", "never", "2", "off"},
    {"sharded", "0", "2", "1", "2", "on", 0, "1", "thread"},
    {"sharded", "0.0625", "0", "never", "2", "on"},
    {"sharded", "0.0625", "1", "always", "1", "off", 0, "0"},
    {"sharded", "0.0625", "2", "never", "1", "on", 0, "0"},
    {"sharded", "25", "0", "never", "1", "off"},
    {"sharded", "25", "1", "always", "2", "on", 0, "2", "thread"},
    {"sharded", "25", "0", "1", "1", "off", 0, "1", "inside"},
    {"sharded-optimizer", "25", "1", "always", "1", "on", 0, "1", "thread"},
    {"sharded-optimizer", "25", "0", "always", "2", "off", 0, "2"},
    {"hybrid", "25", "1", "always", "1", "on", 1},
    {"hybrid", "25", "0", "never", "2", "off", 1, "0"},
    {"hybrid", "25", "2", "1", "2", "on", 2, "1", "thread"},
    {"hybrid", "25", "0", "never", "1", "off", 2},
};

bool        every_way() { return std::getenv("LOCKSTEP_EVERY_WAY") != nullptr; }
std::size_t steps() { return every_way() ? 100 : 3; }

/// Those above, or with LOCKSTEP_EVERY_WAY in the environment all combinations of what a strategy reads, over 100 steps. The blocks of a
/// unit and who makes progress change from one to the next.
std::vector<Way> chosen_ways() {
    if (!every_way()) return {std::begin(ways), std::end(ways)};
    std::vector<Way> all;
    for (char const* threads : {"1", "2", "3"})
        for (char const* overlap : {"on", "off"}) {
            for (char const* bucket : {"0", "0.0625", "25"}) all.push_back({"replicated", bucket, "1", "always", threads, overlap});
            all.push_back({"sharded-optimizer", "25", "1", "always", threads, overlap});
            for (char const* prefetch : {"0", "1", "2"})
                for (char const* reshard : {"always", "never", "1"}) {
                    all.push_back({"sharded", "25", prefetch, reshard, threads, overlap});
                    for (int const group : {1, 2}) all.push_back({"hybrid", "25", prefetch, reshard, threads, overlap, group});
                }
        }
    constexpr char const* unit_blocks[]{"1", "2", "0"};
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].unit_blocks = unit_blocks[i / 2 % 3];
        all[i].progress    = i % 5 % 2 == 0 ? "thread" : "inside";
    }
    return all;
}

/// All ways give the first one's weights and losses.
void check_ways(Words const& flags, int ranks) {
    Folder const        folder;
    std::string const   data = folder.write("data.bin", shard(some_tokens(3000, 101)));
    std::string         weights;
    std::vector<double> losses;
    for (Way const& way : chosen_ways()) {
        if (way.group != 0 && ranks % way.group != 0) continue;
        Words chosen{"--strategy", way.strategy, "--bucket-mb", way.bucket,  "--prefetch",    way.prefetch,    "--reshard",  way.reshard,
                     "--threads",  way.threads,  "--overlap",   way.overlap, "--unit-blocks", way.unit_blocks, "--progress", way.progress};
        if (way.group != 0) chosen = chosen + Words{"--shard-group", std::to_string(way.group)};
        CAPTURE(joined(chosen));
        CAPTURE(ranks);
        Lines const       lines = metrics(folder, ranks, flags + chosen + Words{"--data", data, "--export", folder / "out"});
        std::string const found = read_all(folder / "out/model.safetensors");
        if (weights.empty()) {
            weights = found;
            losses  = column(lines, "loss");
            REQUIRE(weights.size() > 300'000);  // several buckets of 64 KiB
            REQUIRE(losses.size() == steps());
        }
        CHECK(found == weights);
        CHECK(column(lines, "loss") == losses);
    }
}

Words const gpt2{"--layers", "2",  "--heads",        "3",  "--dim",     "60",  "--vocab", "101",
                 "--seq",    "21", "--global-batch", "12", "--dropout", "0.1", "--steps", std::to_string(steps())};
Words const llama = gpt2 + Words{"--arch", "llama", "--kv-heads", "1"};

TEST_CASE("one micro-step gives the same weights for all strategies on 2 ranks") { check_ways(gpt2 + Words{"--precision", "fp32"}, 2); }
TEST_CASE("one micro-step gives the same weights for all strategies on 3 ranks") { check_ways(llama, 3); }
TEST_CASE("one micro-step gives the same weights for all strategies on 4 ranks") { check_ways(gpt2, 4); }

TEST_CASE("several micro-steps give the same weights for all strategies where they add up in each rank") {
    Words const local{"--accumulate", "local", "--micro-batch"};
    check_ways(gpt2 + local + Words{"2"}, 2);
    check_ways(gpt2 + local + Words{"2", "--precision", "fp32"}, 3);
    check_ways(llama + local + Words{"1"}, 4);
}

TEST_CASE("the bits depend on how the sum over micro-steps is ordered") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(3000, 101)));
    std::string       weights[2];
    for (int i = 0; i < 2; ++i) {
        run_well(2, gpt2 + Words{"--precision", "fp32", "--strategy", "sharded", "--micro-batch", "2", "--data", data, "--export",
                                 folder / "out", "--accumulate", i == 0 ? "local" : "sharded"});
        weights[i] = read_all(folder / "out/model.safetensors");
    }
    CHECK(weights[0] != weights[1]);  // else the comparison above shows nothing
}

struct Layout {
    int         ranks;
    char const* strategy;
    int         group = 0;  // of hybrid
};

constexpr Layout layouts[]{
    {1, "single"}, {1, "sharded", 0}, {2, "replicated"},        {2, "sharded-optimizer"}, {2, "sharded"},   {2, "hybrid", 1},
    {2, "hybrid"}, {4, "replicated"}, {4, "sharded-optimizer"}, {4, "sharded"},           {4, "hybrid", 2},
};

/// What else may differ from one layout to the next.
Words const others[]{{"--overlap", "off", "--prefetch", "0"},
                     {"--reshard", "never", "--progress", "thread"},
                     {"--unit-blocks", "0", "--bucket-mb", "0.0625"},
                     {"--reshard", "1", "--prefetch", "2", "--progress", "inside"}};

/// All give the first one's weights, losses and norms.
void check_layouts(Words const& flags) {
    Folder const                     folder;
    std::string const                data = folder.write("data.bin", shard(some_tokens(3000, 101)));
    std::string                      weights;
    std::vector<std::vector<double>> numbers;
    std::size_t                      number = 0;
    for (Layout const& layout : layouts) {
        Words chosen = others[number++ % std::size(others)] +
                       Words{"--strategy", layout.strategy, "--threads", layout.ranks == 1 ? "2" : "1", "--reproducible", "on"};
        if (layout.group != 0) chosen = chosen + Words{"--shard-group", std::to_string(layout.group)};
        CAPTURE(joined(chosen));
        CAPTURE(layout.ranks);
        Lines const       lines = metrics(folder, layout.ranks, flags + chosen + Words{"--data", data, "--export", folder / "out"});
        std::string const found = read_all(folder / "out/model.safetensors");
        std::vector<std::vector<double>> const these{column(lines, "loss"), column(lines, "grad_norm")};
        if (weights.empty()) {
            weights = found;
            numbers = these;
            REQUIRE(numbers[0].size() == steps());
        }
        CHECK((found == weights));
        CHECK((these == numbers));
    }
}

TEST_CASE("--reproducible on gives the same weights on 1, 2 and 4 ranks, in 12, 6 and 3 micro-steps each") {
    check_layouts(gpt2 + Words{"--micro-batch", "1"});
    check_layouts(llama + Words{"--micro-batch", "1", "--precision", "fp32"});
}

TEST_CASE("--reproducible on chooses a micro-batch that all of them can have") { check_layouts(gpt2 + Words{"--precision", "fp32"}); }

}  // namespace equal_bits_test
