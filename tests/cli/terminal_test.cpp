// What a run prints: header, plain lines, evaluations, the average step, the sample; and what --help prints.

#include <set>
#include <sstream>

#include "program.hpp"

namespace terminal_test {

using namespace lockstep::test;

void check_says(std::string const& text, Words const& parts) {
    INFO(text);
    for (std::string const& part : parts) CHECK_MESSAGE(count(text, part) != 0, part);
}

TEST_CASE("a run prints a header, a line a step, evaluations, the average step and a sample") {
    Folder const      folder;
    std::string const data = folder.write("text.txt", read_all(LOCKSTEP_GOLDEN_FOLDER "/make_golden.py"));
    Words const       flags{"--data",         data, "--layers", "2", "--heads",      "2", "--dim",    "32",   "--seq",     "16",
                      "--global-batch", "8",  "--steps",  "6", "--eval-every", "3", "--prompt", "int ", "--threads", "1"};
    for (auto const& [ranks, strategy] : std::vector<std::pair<int, char const*>>{{1, "single"}, {2, "replicated"}, {2, "sharded"}}) {
        std::string const out = run_well(ranks, flags + Words{"--strategy", strategy}).out;
        check_says(out, {"lockstep ",
                         "machine",
                         "cores",
                         ranks == 1 ? "1 rank with 1 thread" : "2 ranks with 1 thread each",
                         "kernels",
                         "gpt2, 2 layers, 2 heads, dim 32",
                         "vocabulary 256",
                         "8 sequences",
                         "bf16 compute",
                         "adamw",
                         strategy,
                         "text.txt",
                         "held out",
                         "parameters",
                         "memory",
                         "params ",
                         "master ",
                         "grads ",
                         "optimizer ",
                         "peak",
                         "predicted",
                         "memory peak",
                         "measured",
                         "step 1/6  loss ",
                         "step 6/6  loss ",
                         "norm ",
                         "tok/s",
                         "mfu ",
                         "step 3/6  validation loss ",
                         "step 6/6  validation loss ",
                         "average of 5 steps, without the first",
                         "compute",
                         "exposed communication",
                         "late peer",
                         "update",
                         "data",
                         "other",
                         "100.0 %",
                         "\nsample\nint "});
        if (ranks == 2) check_says(out, {"8 sequences over all ranks, 4 a rank, 4 at once", "a rank predicted"});
        // the peak that was predicted is the one that was measured
        auto const bytes = [&](std::string const& before) {
            std::istringstream text(out.substr(out.find(before) + before.size()));
            double             number = 0;
            std::string        unit;
            text >> number >> unit;
            return number * (unit == "MiB" ? 1024 : 1);
        };
        CHECK(bytes("  peak        ") == doctest::Approx(bytes("memory peak ")).epsilon(0.15));
        CHECK(count(out, "machine") == 1);  // one rank prints
        CHECK(count(out, "step 3/6  loss") == 1);
        std::string const shown = out.substr(0, out.find("\nsample\n"));  // the model may write what it likes
        CHECK(count(shown, "\r") + count(shown, "\033") == 0);            // plain lines where there is no terminal
    }
}

TEST_CASE("a long run prints about 50 lines") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(2000, 32)));
    auto const        out  = run_well(1, {"--data", data, "--layers", "1", "--heads", "1", "--dim", "8", "--vocab", "32", "--seq", "8",
                                          "--global-batch", "2", "--steps", "500", "--eval-every", "0"})
                         .out;
    CHECK(count(out, " tok/s") >= 40);
    CHECK(count(out, " tok/s") <= 60);
    CHECK(count(out, " left") >= 30);
    CHECK(count(out, "step 500/500") == 1);
    CHECK(count(out, "sample") == 0);  // ids are no text
}

TEST_CASE("no steps: header, sample and weights as they are") {
    Folder const      folder;
    std::string const data = folder.write("text.txt", std::string(300, 'x'));
    auto const        out  = run_well(2, {"--data", data, "--preset", "shakespeare-cpu", "--steps", "0", "--sample", "3", "--metrics",
                                          folder / "m.jsonl", "--export", folder / "out"})
                         .out;
    check_says(out, {"gpt2, 4 layers, 4 heads, dim 128", "64 tokens a sequence", "12 sequences", "\nsample\n"});
    CHECK(count(out, "average of") == 0);
    CHECK(read_all(folder / "m.jsonl").empty());
    CHECK(std::filesystem::exists(folder / "out/model.safetensors"));
}

TEST_CASE("without --data it reads the sources of the project") {
    auto const out =
        run_well(1, {"--layers", "1", "--heads", "1", "--dim", "16", "--steps", "1", "--eval-every", "0", "--sample", "0"}).out;
    check_says(out, {"the sources below ", "128 tokens a sequence", "16 sequences"});  // preset demo
}

TEST_CASE("--help lists every flag once, on one rank, and is not an error") {
    for (int ranks : {1, 2}) {
        for (char const* flag : {"--help", "-h"}) {
            std::string const out = run_well(ranks, {flag}).out;
            for (char const* name :
                 {"--data",         "--val-data",    "--val-fraction", "--eval-every",  "--ignore-label", "--order",       "--seed",
                  "--arch",         "--layers",      "--heads",        "--kv-heads",    "--dim",          "--ffn",         "--vocab",
                  "--seq",          "--preset",      "--dropout",      "--init",        "--global-batch", "--micro-batch", "--precision",
                  "--reduce-dtype", "--optimizer",   "--lr",           "--beta1",       "--beta2",        "--eps",         "--momentum",
                  "--weight-decay", "--clip",        "--schedule",     "--warmup",      "--min-lr-ratio", "--steps",       "--strategy",
                  "--shard-group",  "--reshard",     "--prefetch",     "--bucket-mb",   "--overlap",      "--progress",    "--reduction",
                  "--accumulate",   "--unit-blocks", "--reproducible", "--recompute",   "--threads",      "--isa",         "--metrics",
                  "--trace",        "--trace-steps", "--report",       "--save",        "--save-every",   "--keep",        "--resume",
                  "--export",       "--sample",      "--prompt",       "--temperature", "--timeout"})
                CHECK_MESSAGE(count(out, "\n  " + std::string(name) + " ") == 1, name);
        }
    }
}

}  // namespace terminal_test
