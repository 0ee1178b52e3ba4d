// Validation losses are token-exact: over all full windows once, whatever ranks, strategy and batches.

#include <set>

#include "program.hpp"

namespace evaluation_test {

using namespace lockstep::test;

Words const small{"--layers", "2", "--heads", "2", "--dim", "24", "--vocab", "53", "--seq", "16", "--sample", "0", "--precision", "fp32"};

std::vector<double> validation(Lines const& lines) {
    std::vector<double> values;
    for (auto const& line : lines)
        if (line.contains("val_loss")) values.push_back(line.at("val_loss").get<double>());
    return values;
}

TEST_CASE("the validation loss has the same digits on any ranks, strategy and micro-batch") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(1000, 53)));
    std::string const held_out =
        folder.write("held_out.bin", shard(some_tokens(16 * 25 + 9, 53, 77)));  // 25 windows: no multiple of anything
    Words const flags =
        small + Words{"--data", data, "--val-data", held_out, "--eval-every", "2", "--steps", "2", "--lr", "0", "--global-batch", "12"};
    std::set<double> losses;
    auto const       add = [&](int ranks, Words const& more) {
        auto const found = validation(metrics(folder, ranks, flags + more));
        REQUIRE(found.size() == 1);
        losses.insert(found[0]);
    };
    for (char const* micro_batch : {"1", "3", "12"}) add(1, {"--micro-batch", micro_batch});
    add(1, {"--threads", "3"});
    for (int ranks : {2, 3, 4}) add(ranks, {"--strategy", "replicated"});
    for (int ranks : {2, 3}) add(ranks, {"--strategy", "sharded", "--micro-batch", "2"});
    add(3, {"--strategy", "sharded-optimizer", "--micro-batch", "2"});
    add(4, {"--strategy", "hybrid", "--shard-group", "2"});
    CHECK(losses.size() == 1);
}

TEST_CASE("the validation loss is the training loss over the same windows") {
    Folder const folder;
    auto         ids = some_tokens(16 * 24 + 1, 53, 5);  // 24 windows, one step
    for (std::size_t i = 3; i < ids.size(); i += 7) ids[i] = 52;
    std::string const data = folder.write("data.bin", shard(ids));
    for (char const* ignored : {"none", "52", "-100"})
        for (int ranks : {1, 2, 3}) {
            Words const more  = ignored == std::string("none") ? Words{} : Words{"--ignore-label", ignored};
            auto const  lines = metrics(
                 folder, ranks,
                 small + more +
                     Words{"--data", data, "--val-data", data, "--eval-every", "1", "--steps", "2", "--lr", "0", "--global-batch", "24"});
            auto const found = validation(lines);
            REQUIRE(found.size() == 2);
            CHECK(column(lines, "loss")[1] == found[0]);
            CHECK(column(lines, "loss")[1] == found[1]);
            std::size_t valid = 24 * 16;
            if (ignored == std::string("52")) valid -= static_cast<std::size_t>(std::count(ids.begin() + 1, ids.end(), 52));
            CHECK(lines[0].at("valid_tokens") == valid);
        }
}

TEST_CASE("the held-out fraction is the end of the data, and is not trained on") {
    Folder const      folder;
    auto const        ids   = some_tokens(2000, 53);
    auto const        cut   = ids.begin() + 1500;
    std::string const whole = folder.write("whole.bin", shard(ids)), train = folder.write("train.bin", shard({ids.begin(), cut})),
                      rest = folder.write("rest.bin", shard({cut, ids.end()}));
    Words const flags      = small + Words{"--eval-every", "2", "--steps", "5", "--global-batch", "4"};
    Lines const split      = metrics(folder, 1, flags + Words{"--data", whole, "--val-fraction", "0.25"});
    Lines const files      = metrics(folder, 1, flags + Words{"--data", train, "--val-data", rest});
    CHECK(validation(split).size() == 3);  // steps 2, 4 and the last
    CHECK(validation(split) == validation(files));
    CHECK(column(split, "loss") == column(files, "loss"));
    CHECK(split.at(1).contains("val_loss"));
    CHECK(split.at(3).contains("val_loss"));
    CHECK(split.at(4).contains("val_loss"));
    CHECK(validation(metrics(folder, 1, small + Words{"--data", whole, "--val-fraction", "0", "--steps", "2", "--global-batch", "4"}))
              .empty());
}

TEST_CASE("held-out tokens without a valid label have no validation loss, and that is said") {
    Folder const      folder;
    std::string const data     = folder.write("data.bin", shard(some_tokens(1000, 52))),
                      held_out = folder.write("none.bin", shard(std::vector<std::int32_t>(100, 52)));
    for (int ranks : {1, 2}) {
        Ended const ended = run_well(ranks, small + Words{"--data", data, "--val-data", held_out, "--eval-every", "1", "--steps", "2",
                                                          "--global-batch", "4", "--ignore-label", "52", "--metrics", folder / "m.jsonl"});
        CHECK(count(ended.out, "no validation loss: no valid labels are held out") == 2);
        CHECK(count(ended.out, "nan") == 0);
        for (auto const& line : read_lines(folder / "m.jsonl")) {
            CHECK_FALSE(line.contains("val_loss"));
            CHECK_FALSE(line.contains("nonfinite"));
        }
    }
}

TEST_CASE("evaluating changes nothing of the training") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(2000, 53)));
    Words const       flags =
        small + Words{"--data", data, "--steps", "4", "--global-batch", "4", "--dropout", "0.2", "--export", folder / "out"};
    std::string weights[2];
    for (int i = 0; i < 2; ++i) {
        run_well(2, flags + Words{"--eval-every", i == 0 ? "0" : "1"});
        weights[i] = read_all(folder / "out/model.safetensors");
    }
    CHECK(weights[0] == weights[1]);
}

}  // namespace evaluation_test
