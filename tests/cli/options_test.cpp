// What the other flags of train_gpt do, seen from outside.

#include "program.hpp"

namespace options_test {

using namespace lockstep::test;
namespace fs = std::filesystem;

Words const small{"--layers", "2", "--heads", "2", "--dim", "32", "--vocab", "64", "--seq", "16", "--global-batch", "12", "--sample", "0"};

/// Weights that a run exports, byte for byte.
std::string weights(Folder const& folder, int ranks, Words const& flags) {
    run_well(ranks, flags + Words{"--export", folder / "out"});
    std::string bytes = read_all(folder / "out/model.safetensors");
    fs::remove_all(folder / "out");
    REQUIRE(bytes.size() > 1000);
    return bytes;
}

double largest_difference(std::vector<double> const& a, std::vector<double> const& b) {
    double largest = 0;
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, relative_difference(a[i], b[i]));
    return largest;
}

std::string sample_of(Ended const& ended) {
    std::size_t const at = ended.out.find("\nsample\n");
    REQUIRE(at != std::string::npos);
    return ended.out.substr(at + 8);
}

TEST_CASE("the same seed gives the same losses, another one others") {
    Folder const      folder;
    std::string const data  = folder.write("data.bin", shard(some_tokens(2000, 64)));
    Words const       flags = small + Words{"--data", data, "--steps", "3", "--dropout", "0.1", "--seed"};
    auto const        first = column(metrics(folder, 2, flags + Words{"1"}), "loss");
    CHECK(column(metrics(folder, 2, flags + Words{"1"}), "loss") == first);
    CHECK(column(metrics(folder, 2, flags + Words{"18446744073709551615"}), "loss") != first);
}

TEST_CASE("samples come in the order of the data, or shuffled anew in each pass over it") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(16 * 8 + 1, 64)));  // 8 windows
    Words const       flags{"--layers",       "1",    "--heads",  "2",  "--dim",          "16", "--vocab", "64", "--seq",   "16",
                      "--global-batch", "1",    "--sample", "0",  "--val-fraction", "0",  "--lr",    "0",  "--steps", "24",
                      "--precision",    "fp32", "--data",   data, "--order"};
    auto const        passes = [&](char const* order) {
        auto const losses = column(metrics(folder, 1, flags + Words{order}), "loss");
        REQUIRE(losses.size() == 24);
        return std::vector<std::vector<double>>{
            {losses.begin(), losses.begin() + 8}, {losses.begin() + 8, losses.begin() + 16}, {losses.begin() + 16, losses.end()}};
    };
    auto const sorted = [](std::vector<double> values) {
        std::sort(values.begin(), values.end());
        return values;
    };
    auto const sequential = passes("sequential"), shuffled = passes("shuffled");
    CHECK(sequential[1] == sequential[0]);
    CHECK(sequential[2] == sequential[0]);
    for (auto const& pass : shuffled) {
        CHECK(sorted(pass) == sorted(sequential[0]));  // each window once
        CHECK(pass != sequential[0]);
    }
    CHECK(shuffled[1] != shuffled[0]);
    CHECK(shuffled[2] != shuffled[1]);
}

TEST_CASE("results do not depend on the number of threads") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(2000, 64)));
    for (char const* precision : {"fp32", "bf16"}) {
        Words const       flags = small + Words{"--data", data, "--steps", "3", "--dropout", "0.1", "--precision", precision, "--threads"};
        std::string const one   = weights(folder, 1, flags + Words{"1"});
        CHECK(weights(folder, 1, flags + Words{"2"}) == one);
        CHECK(weights(folder, 1, flags + Words{"3"}) == one);
    }
}

TEST_CASE("a step that sees sequences more than once says so") {
    Folder const      folder;
    Words const       few{"--data",         folder.write("few.bin", shard(some_tokens(65, 61))),
                    "--layers",       "1",
                    "--heads",        "1",
                    "--dim",          "16",
                    "--vocab",        "61",
                    "--seq",          "16",
                    "--val-fraction", "0",
                    "--steps",        "1",
                    "--sample",       "0",
                    "--global-batch"};
    std::string const says = "--data has 4 sequences, fewer than --global-batch 8: a step sees some of them more than once";
    CHECK(count(run_well(1, few + Words{"8"}).out, says) == 1);
    CHECK(count(run_well(1, few + Words{"4"}).out, "more than once") == 0);
}

TEST_CASE("recomputation gives the same bits, with dropout too") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(2000, 64)));
    for (char const* arch : {"gpt2", "llama"})
        for (int ranks : {1, 2}) {
            Words const flags = small + Words{"--data", data, "--steps", "3", "--dropout", "0.2", "--arch", arch, "--recompute"};
            CHECK(weights(folder, ranks, flags + Words{"block"}) == weights(folder, ranks, flags + Words{"none"}));
        }
}

TEST_CASE("dropout drops the same elements on any number of ranks") {
    Folder const      folder;
    std::string const data  = folder.write("data.bin", shard(some_tokens(2000, 64)));
    Words const       flags = small + Words{"--data", data, "--steps", "4", "--precision", "fp32"};
    Words const       drop{"--dropout", "0.2"};
    auto const        one = column(metrics(folder, 1, flags + drop), "loss");
    CHECK(largest_difference(column(metrics(folder, 2, flags + drop), "loss"), one) < 1e-5);
    CHECK(largest_difference(column(metrics(folder, 3, flags + drop + Words{"--strategy", "sharded", "--micro-batch", "2"}), "loss"), one) <
          1e-5);
    CHECK(largest_difference(column(metrics(folder, 1, flags), "loss"), one) > 1e-4);
}

TEST_CASE("scalar kernels compute what the others do") {
    Folder const      folder;
    std::string const data  = folder.write("data.bin", shard(some_tokens(2000, 64)));
    Words const       flags = small + Words{"--data", data, "--steps", "4", "--precision", "fp32", "--isa"};
    CHECK(largest_difference(column(metrics(folder, 1, flags + Words{"auto"}), "loss"),
                             column(metrics(folder, 1, flags + Words{"scalar"}), "loss")) < 1e-5);
}

TEST_CASE("gradients may travel as bf16") {
    Folder const      folder;
    std::string const data  = folder.write("data.bin", shard(some_tokens(2000, 64)));
    Words const       flags = small + Words{"--data", data, "--steps", "4", "--precision", "fp32", "--reduce-dtype"};
    auto const        fp32  = column(metrics(folder, 2, flags + Words{"fp32"}), "grad_norm");
    double const      apart = largest_difference(column(metrics(folder, 2, flags + Words{"bf16"}), "grad_norm"), fp32);
    CHECK(apart > 0);
    CHECK(apart < 1e-2);
}

TEST_CASE("on one rank nothing travels, and nothing is rounded for it") {
    Folder const      folder;
    std::string const data  = folder.write("data.bin", shard(some_tokens(2000, 64)));
    Words const       flags = small + Words{"--data", data, "--steps", "3", "--strategy"};
    std::string const usual = weights(folder, 1, flags + Words{"single"});
    for (char const* strategy : {"single", "replicated", "sharded-optimizer", "sharded", "hybrid"})
        CHECK(weights(folder, 1, flags + Words{strategy, "--reduce-dtype", "bf16"}) == usual);
}

TEST_CASE("the learning rate follows its schedule and the steps are counted from version 0") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(2000, 64)));
    auto const        lr   = [&](char const* schedule) {
        return column(metrics(folder, 1,
                                       small + Words{"--data", data, "--steps", "12", "--lr", "2", "--optimizer", "sgd", "--clip", "1e-6",
                                            "--schedule", schedule, "--warmup", "4", "--min-lr-ratio", "0.1"}),
                               "lr");
    };
    double const cosine[]{.25, .5, .75, 1, 1, .965746, .868198, .722208, .55, .377792, .231802, .134254};
    auto const   found = lr("cosine");
    REQUIRE(found.size() == 12);
    for (std::size_t i = 0; i < 12; ++i) CHECK(found[i] == doctest::Approx(2 * cosine[i]).epsilon(1e-5));
    CHECK(lr("constant").back() == 2);
    CHECK(lr("wsd").at(4) == 2);
    CHECK(lr("wsd").back() < 2);
}

TEST_CASE("a run that starts from exported weights continues where the other ended") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(2000, 64)));
    for (char const* arch : {"gpt2", "llama"}) {
        Words const  run_flags{"--data", data, "--eval-every", "1", "--global-batch", "12", "--sample", "0", "--precision", "fp32"};
        Words const  sizes{"--arch", arch, "--layers", "2", "--heads", "2", "--dim", "32", "--ffn", "96", "--vocab", "64", "--seq", "16"};
        auto const   ended = metrics(folder, 2, run_flags + sizes + Words{"--steps", "3", "--lr", "0.01", "--export", folder / "out"});
        double const loss  = ended.back().at("val_loss").get<double>();
        Words const  stay{"--steps", "1", "--lr", "0"};
        auto const   loss_from = [&](int ranks, Words const& more) {
            return metrics(folder, ranks, run_flags + stay + more).back().at("val_loss").get<double>();
        };
        CHECK(loss != ended.front().at("val_loss").get<double>());
        CHECK(loss_from(1, {"--init", folder / "out"}) == loss);  // sizes from config.json
        CHECK(loss_from(2, {"--init", folder / "out/model.safetensors", "--strategy", "sharded"}) == loss);
        CHECK(loss_from(2, sizes + Words{"--init", folder / "out"}) == loss);

        // without config.json the sizes come from the flags; the prefix of the names may be missing
        std::string const bytes  = read_all(folder / "out/model.safetensors");
        std::size_t       length = 0;
        for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
        nlohmann::ordered_json bare;
        auto const             header = nlohmann::ordered_json::parse(bytes.substr(8, length));
        for (auto const& [name, tensor] : header.items()) {
            std::string const prefix                                           = arch == std::string("gpt2") ? "transformer." : "model.";
            bare[name.starts_with(prefix) ? name.substr(prefix.size()) : name] = tensor;
        }
        CHECK(bare != header);
        std::string const text = bare.dump();
        std::string       start(8, '\0');
        for (std::size_t i = 0; i < 8; ++i) start[i] = static_cast<char>(text.size() >> 8 * i & 255u);
        std::string const file = folder.write("bare.safetensors", start + text + bytes.substr(8 + length));
        CHECK(loss_from(1, sizes + Words{"--init", file}) == loss);
        fs::remove_all(folder / "out");
    }
}

TEST_CASE("exporting replaces what an earlier run exported and leaves nothing else") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(2000, 64)));
    for (char const* seed : {"1", "2"})
        run_well(2, small + Words{"--data", data, "--steps", "1", "--seed", seed, "--export", folder / "deep/out"});
    std::size_t files = 0;
    for (auto const& entry : fs::directory_iterator(folder / "deep/out")) {
        CHECK((entry.path().filename() == "model.safetensors" || entry.path().filename() == "config.json"));
        ++files;
    }
    CHECK(files == 2);
    auto const config = nlohmann::json::parse(read_all(folder / "deep/out/config.json"));
    CHECK(config.at("model_type") == "gpt2");
    CHECK(config.at("n_embd") == 32);
}

TEST_CASE("the metrics may lie in the folder of the export, be it there already or not") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(2000, 64)));
    for (int ranks : {1, 2})
        for (int time = 0; time < 2; ++time) {
            std::string const out = folder / ("out" + std::to_string(ranks) + "/deep");
            run_well(ranks, small + Words{"--data", data, "--steps", "2", "--export", out, "--metrics", out + "/m.jsonl"});
            CHECK(read_lines(out + "/m.jsonl").size() == 2);
            CHECK(fs::exists(out + "/model.safetensors"));
        }
}

TEST_CASE("a small vocabulary needs no prompt") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(400, 5)));
    Words const       flags{"--data", data, "--layers",       "1", "--heads", "2", "--dim",    "16", "--vocab", "5",
                      "--seq",  "8",  "--global-batch", "4", "--steps", "1", "--sample", "3"};
    CHECK(count(sample_of(run_well(2, flags)), " ") == 4);  // token 0 and three more
    CHECK(sample_of(run_well(2, flags)).starts_with("0 "));
}

TEST_CASE("a sample moves no cursor: what is no text is escaped") {
    Folder const folder;
    std::string  text;
    for (int i = 0; i < 200; ++i) text += "ab\x1B\xFF\xC3\xA4\n";
    std::string const data = folder.write("noise.txt", text);
    auto const        out  = sample_of(run_well(
                1, {"--data",  data,  "--layers", "1",    "--heads",      "2", "--dim",    "32", "--seq",    "16", "--global-batch", "8",
                    "--steps", "200", "--lr",     "0.01", "--eval-every", "0", "--sample", "14", "--prompt", "ab", "--temperature",  "0"}));
    CHECK(out == "ab\\x1b\\xff\xC3\xA4\nab\\x1b\\xff\xC3\xA4\nab\n");
}

TEST_CASE("without --metrics, --export and the rest nothing is written") {
    Folder const      folder;
    std::string const data   = folder.write("data.bin", shard(some_tokens(2000, 64)));
    auto const        before = fs::current_path();
    fs::create_directory(folder / "here");
    fs::current_path(folder / "here");
    run_well(2, small + Words{"--data", data, "--steps", "1"});
    CHECK(fs::is_empty("."));
    fs::current_path(before);
}

TEST_CASE("a sample of what was learnt follows the prompt, the same on any ranks at temperature 0") {
    Folder const folder;
    std::string  text;
    for (int i = 0; i < 300; ++i) text += "abcdefg";  // no divisor of the 16 tokens of a sequence
    std::string const data = folder.write("letters.txt", text);
    Words const       flags{"--data",         data, "--layers", "1",   "--heads", "2",    "--dim",        "32", "--seq",          "16",
                      "--global-batch", "8",  "--steps",  "200", "--lr",    "0.01", "--eval-every", "0",  "--val-fraction", "0"};
    Words const       greedy{"--sample", "21", "--prompt", "cde", "--temperature", "0"};
    CHECK(sample_of(run_well(1, flags + greedy)) == "cdefgabcdefgabcdefgabcde\n");
    CHECK(sample_of(run_well(2, flags + greedy)) == "cdefgabcdefgabcdefgabcde\n");
    CHECK(sample_of(run_well(2, flags + greedy + Words{"--strategy", "sharded"})) == "cdefgabcdefgabcdefgabcde\n");

    Words const warm{"--prompt", "a", "--temperature", "50"};
    auto const  drawn = sample_of(run_well(2, flags + warm));
    CHECK(drawn.size() >= 1 + 200 + 1);  // 200 tokens on text, bytes that do not print escaped, and the end of the line
    CHECK(drawn == sample_of(run_well(2, flags + warm)));
    CHECK(drawn != sample_of(run_well(2, flags + warm + Words{"--seed", "5"})));
    CHECK(count(run_well(1, flags + Words{"--sample", "0"}).out, "sample") == 0);
}

}  // namespace options_test
