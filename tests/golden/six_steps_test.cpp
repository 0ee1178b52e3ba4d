// train_gpt against PyTorch in float64: six steps of small models, on every number of ranks, strategy and number of micro-steps.
// make_golden.py made the cases; `expected.json` also says what PyTorch's own float32 run deviates by.

#include <cmath>
#include <cstdlib>
#include <map>

#include "../cli/program.hpp"
#include "lockstep/io/safetensors.hpp"
#include "lockstep/kernel/arch/cpu_features.hpp"

namespace six_steps_test {

using namespace lockstep::test;
namespace fs = std::filesystem;

struct Case {
    explicit Case(fs::path const& where) : folder(where), expected(nlohmann::json::parse(read_all(where / "expected.json"))) {
        auto const written = nlohmann::json::parse(read_all(where / "flags.json"));
        for (auto const& [flag, value] : written.items()) flags = flags + Words{flag, value.get<std::string>()};
        flags = flags + Words{"--data", where / "data.bin", "--init", where / "init.safetensors", "--sample", "0"};
    }

    fs::path       folder;
    nlohmann::json expected;
    Words          flags;

    std::size_t rows() const { return std::stoul(*(std::find(flags.begin(), flags.end(), "--global-batch") + 1)); }
};

std::vector<Case> cases() {
    std::vector<Case> found;
    for (auto const& entry : fs::directory_iterator(LOCKSTEP_GOLDEN_FOLDER))
        if (fs::exists(entry.path() / "flags.json")) found.emplace_back(entry.path());
    std::sort(found.begin(), found.end(), [](Case const& a, Case const& b) { return a.folder < b.folder; });
    return found;
}

struct Way {
    int         ranks, micro_steps;
    char const *strategy, *reshard;
};

/// One case of each architecture goes every way: ranks x strategies x micro-steps x reshard policies. With LOCKSTEP_EVERY_WAY in the
/// environment all do, in three times the time.
bool goes_every_way(Case const& golden) {
    std::string const name = golden.folder.filename().string();
    return std::getenv("LOCKSTEP_EVERY_WAY") != nullptr || name == "gpt2_odd_adamw" || name == "llama_odd_sgd";
}

/// The other cases leave out strategies of several ranks on one, and reshard in every second way; with `turn` it changes in which.
std::vector<Way> ways_of(Case const& golden, std::size_t turn) {
    bool const       all = goes_every_way(golden);
    std::vector<Way> ways;
    for (int const micro_steps : {1, 2, 4}) {
        ways.push_back({1, micro_steps, "single", "always"});
        for (int ranks = all ? 1 : 2; ranks <= 4; ++ranks) {
            ways.push_back({ranks, micro_steps, "replicated", "always"});
            ++turn;
            if (all || turn % 2 == 0) ways.push_back({ranks, micro_steps, "sharded", "always"});
            if (all || turn % 2 == 1) ways.push_back({ranks, micro_steps, "sharded", "never"});
        }
    }
    return ways;
}

/// Each rank count, strategy, reshard policy and number of micro-steps at least once.
constexpr Way few_ways[]{
    {1, 4, "single", "always"}, {2, 1, "sharded", "never"}, {3, 2, "sharded", "always"}, {4, 1, "replicated", "always"}};

Words flags_of(Case const& golden, Way const& way) {
    std::size_t const micro_batch = golden.rows() / static_cast<std::size_t>(way.ranks * way.micro_steps);
    return golden.flags + Words{"--strategy", way.strategy, "--reshard", way.reshard, "--micro-batch", std::to_string(micro_batch)};
}

/// Elements whose true gradient is zero: rounding alone moves them.
bool without_gradient(nlohmann::json const& expected, std::string const& tensor, std::size_t element) {
    for (auto const& range : expected.at("without_gradient"))
        if (range.at("tensor") == tensor && element >= range.at("begin").get<std::size_t>() && element < range.at("end").get<std::size_t>())
            return true;
    return false;
}

std::map<std::string, std::vector<float>> weights(fs::path const& path) {
    lockstep::io::SafetensorsFile const       file(path);
    std::map<std::string, std::vector<float>> all;
    for (auto const& tensor : file.tensors()) {
        std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
        file.read(tensor.name, values);
        all.emplace(tensor.name, std::move(values));
    }
    return all;
}

void check_weights(Case const& golden, fs::path const& exported) {
    auto const   expected = weights(golden.folder / "final.safetensors"), found = weights(exported);
    auto const   rates    = golden.expected.at("learning_rate").get<std::vector<double>>();
    double const rate     = *std::max_element(rates.begin(), rates.end());
    std::size_t  elements = 0, beyond = 0;
    double       largest = 0;
    REQUIRE(found.size() == expected.size());
    for (auto const& [name, values] : expected) {
        std::string const tensor = name;
        CAPTURE(tensor);
        REQUIRE(found.count(name) == 1);
        auto const& other = found.at(name);
        REQUIRE(other.size() == values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (without_gradient(golden.expected, name, i)) continue;
            double const error = std::abs(static_cast<double>(other[i]) - static_cast<double>(values[i]));
            elements += 1;
            beyond += !(error <= 2e-5 * (1 + std::abs(static_cast<double>(values[i]))));
            largest = std::max(largest, error);
        }
    }
    CHECK(static_cast<double>(beyond) <= static_cast<double>(elements) / 10'000);
    CHECK(largest <= rate);
}

/// Largest relative deviation of a column from what PyTorch computed.
double deviation(Case const& golden, Lines const& lines, char const* key) {
    auto const expected = golden.expected.at(key == std::string("lr") ? "learning_rate" : key).get<std::vector<double>>();
    auto const found    = column(lines, key);
    double     largest  = 0;
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) largest = std::max(largest, relative_difference(found[i], expected[i]));
    return largest;
}

TEST_CASE("there are goldens of both architectures and of every optimizer") {
    auto const all = cases();
    CHECK(all.size() >= 6);
    for (char const* word : {"gpt2", "llama", "sgd", "adam", "adamw"})
        CHECK_MESSAGE(
            std::any_of(all.begin(), all.end(), [&](Case const& c) { return std::count(c.flags.begin(), c.flags.end(), word) != 0; }),
            word);
    CHECK(std::count_if(all.begin(), all.end(), goes_every_way) >= 2);
}

TEST_CASE("fp32 gives the losses, gradient norms and weights of PyTorch in float64") {
    Folder const folder;
    std::size_t  turn = 0;
    for (Case const& golden : cases())
        for (Way const& way : ways_of(golden, turn++)) {
            Words const flags = flags_of(golden, way) + Words{"--precision", "fp32", "--export", folder / "out"};
            CAPTURE(golden.folder.filename().string());
            CAPTURE(way.ranks);
            CAPTURE(joined(flags));
            Lines const lines = metrics(folder, way.ranks, flags);
            CHECK(deviation(golden, lines, "loss") <= 2e-6);
            CHECK(deviation(golden, lines, "grad_norm") <= 2e-5);
            CHECK(deviation(golden, lines, "lr") <= 1e-12);
            CHECK(deviation(golden, lines, "valid_tokens") == 0);
            check_weights(golden, folder / "out/model.safetensors");
        }
}

TEST_CASE("bf16 and fp16 give the losses of PyTorch in float64 within their precision") {
    Folder const folder;
    for (Case const& golden : cases())
        for (char const* precision : {"bf16", "fp16"})
            for (Way const& way : few_ways) {
                Words const flags = flags_of(golden, way) + Words{"--precision", precision};
                CAPTURE(golden.folder.filename().string());
                CAPTURE(way.ranks);
                CAPTURE(joined(flags));
                CHECK(deviation(golden, metrics(folder, way.ranks, flags), "loss") <= 2e-2);
            }
}

TEST_CASE("every family of kernels gives the losses of PyTorch within the precision of bf16") {
    std::vector<char const*> families{"scalar"};
#if defined(__AVX512F__)
    families.push_back("avx512");
#elif defined(__AVX2__)
    families.push_back("avx2");
#endif
    if (lockstep::kernel::arch::has_amx()) families.push_back("amx");
    Folder const folder;
    for (Case const& golden : cases())
        for (char const* family : families) {
            Words const flags = flags_of(golden, {2, 2, "sharded", "always"}) + Words{"--precision", "bf16", "--isa", family};
            CAPTURE(joined(flags));
            CHECK(deviation(golden, metrics(folder, 2, flags), "loss") <= 2e-2);
        }
}

TEST_CASE("the scalar kernels give the numbers of PyTorch too") {
    Folder const folder;
    for (Case const& golden : cases()) {
        Words const flags =
            flags_of(golden, {2, 2, "sharded", "always"}) + Words{"--precision", "fp32", "--isa", "scalar", "--export", folder / "out"};
        CAPTURE(joined(flags));
        Lines const lines = metrics(folder, 2, flags);
        CHECK(deviation(golden, lines, "loss") <= 2e-6);
        CHECK(deviation(golden, lines, "grad_norm") <= 2e-5);
        check_weights(golden, folder / "out/model.safetensors");
    }
}

}  // namespace six_steps_test
