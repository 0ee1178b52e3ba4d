// Runs that end, are ended or are killed, and continue from what they saved: as if nothing had happened.

#include <cstdlib>
#include <span>
#include <string_view>

#include "checkpointing.hpp"
#include "lockstep/io/checkpoint_reader.hpp"

namespace checkpoint_test {

using namespace lockstep::test;
namespace fs = std::filesystem;

struct Way {
    int         ranks;
    char const* strategy;
};
constexpr Way ways[]{{1, "single"}, {2, "replicated"}, {3, "sharded"}, {4, "sharded"}};

Lines steps_of(Lines const& lines) {
    Lines steps;
    for (auto const& line : lines)
        if (line.contains("step")) steps.push_back(line);
    return steps;
}

TEST_CASE("a run that ended and continues takes the steps of one that never ended, also from the end of an epoch") {
    for (auto const& [way, precision] : {std::pair{ways[0], "bf16"}, {ways[1], "fp32"}, {ways[2], "fp16"}}) {
        CheckpointPlace const place;
        Words const           how{"--strategy", way.strategy, "--precision", precision};
        CAPTURE(joined(how));
        run_well(way.ranks, place.steps(9) + how + Words{"--metrics", place.metrics, "--export", place.out});
        Lines const       all     = read_lines(place.metrics);
        std::string const weights = place.exported();

        Words const save{"--save", place.saved, "--save-every", "4", "--keep", "2", "--metrics", place.metrics};
        run_well(way.ranks, place.steps(6) + how + save);
        CHECK(newest(place.saved) == place.saved + "/step-0000000006");
        CHECK(checkpoints(place.saved) == 2);
        CHECK(strangers(place.saved).empty());

        // from version 4, the end of an epoch, as if the run had been killed in its sixth step
        fs::remove_all(newest(place.saved));
        place.folder.write("saved/latest", "step-0000000004\n");
        run_well(way.ranks, place.steps(9) + how + save + Words{"--resume", place.saved, "--export", place.out});
        CHECK(place.exported() == weights);
        Lines const lines = read_lines(place.metrics);
        REQUIRE(lines.size() == 6 + 1 + 5);
        CHECK(lines[6].dump() == "{\"resumed_from\":4}");
        for (std::size_t i = 0; i < 5; ++i)
            for (char const* key : {"step", "loss", "grad_norm", "lr", "tokens", "loss_scale"})
                CHECK(lines[7 + i].at(key) == all[4 + i].at(key));
        CHECK(newest(place.saved) == place.saved + "/step-0000000009");
        CHECK(checkpoints(place.saved) == 2);
    }
}

TEST_CASE("other ranks and strategies read the same state, byte for byte") {
    CheckpointPlace const place;
    run_well(1, place.steps(3) + Words{"--save", place.saved});
    auto const  expected = contents_of(newest(place.saved));
    std::string last     = place.saved;
    CHECK(expected.size() == 3 * (4 + 2 * 12));
    for (Way const& way : {Way{2, "replicated"}, Way{3, "sharded"}, Way{4, "hybrid"}, Way{4, "replicated"}, Way{2, "sharded-optimizer"},
                           Way{2, "sharded"}, Way{1, "sharded"}, Way{1, "single"}}) {
        std::string const next  = place.folder / ("saved_" + std::to_string(way.ranks) + way.strategy);
        Words const       group = std::string_view(way.strategy) == "hybrid" ? Words{"--shard-group", "2"} : Words{};
        run_well(way.ranks, place.steps(3) + group + Words{"--strategy", way.strategy, "--resume", last, "--save", next});
        CHECK((contents_of(newest(next)) == expected));
        CHECK(
            fs::exists(newest(next) + "/state-0000" + std::to_string(way.ranks) + "-of-0000" + std::to_string(way.ranks) + ".safetensors"));
        last = next;
    }
}

TEST_CASE("saved on two ranks, continued on others with any strategy: the weights of a run that was never interrupted") {
    CheckpointPlace const place;
    for (char const* precision : {"fp32", "bf16"}) {
        Words const same{"--reproducible", "on", "--precision", precision, "--export", place.out};
        CAPTURE(precision);
        run_well(1, place.steps(7) + same + Words{"--strategy", "single"});
        std::string const weights = place.exported();
        run_well(2, place.steps(3) + same + Words{"--strategy", "sharded", "--save", place.saved});
        CHECK(place.exported() != weights);
        for (auto const& [ranks, how] : std::vector<std::pair<int, Words>>{{1, {"--strategy", "single"}},
                                                                           {2, {"--strategy", "sharded"}},
                                                                           {2, {"--strategy", "replicated"}},
                                                                           {4, {"--strategy", "sharded"}},
                                                                           {4, {"--strategy", "sharded-optimizer"}},
                                                                           {4, {"--strategy", "hybrid", "--shard-group", "2"}},
                                                                           {4, {"--strategy", "replicated"}}}) {
            CAPTURE(joined(how));
            run_well(ranks, place.steps(7) + same + how + Words{"--resume", place.saved});
            CHECK(place.exported() == weights);
        }
        fs::remove_all(place.saved);
    }
}

TEST_CASE("a step does not wait for a checkpoint that is still being written: the next is left out and told, the last is not") {
    CheckpointPlace const place;
    for (int const ranks : {1, 2}) {
        Ended const ended = run_well(ranks, place.steps(7) + Words{"--save", place.saved, "--save-every", "1"});
        INFO(ended.out);
        CHECK(fs::exists(place.saved + "/step-0000000001"));
        CHECK_FALSE(fs::exists(place.saved + "/step-0000000002"));  // the first is complete when two more steps have looked
        CHECK(newest(place.saved) == place.saved + "/step-0000000007");
        CHECK(count(ended.out, "version 2 was not saved: version 1 was still being written\n") + count(ended.out, "versions 2 to ") == 1);
        CHECK(count(ended.out, "version 7 was not saved") == 0);
        CHECK(count(ended.out, "saved " + place.saved) == checkpoints(place.saved));
        fs::remove_all(place.saved);
    }
}

TEST_CASE("a checkpoint holds exactly the model and says what it is of") {
    CheckpointPlace const place;
    run_well(2, place.steps(2) + Words{"--strategy", "sharded", "--save", place.saved, "--seed", "7"});
    auto const  index = nlohmann::json::parse(read_all(newest(place.saved) + "/index.json"));
    std::size_t bytes = 0;
    for (auto const& [name, data] : contents_of(newest(place.saved))) bytes += data.size();
    std::size_t const parameters = 61 * 32 + 16 * 32 + 2 * 32 + 2 * (12 * 32 * 32 + 13 * 32);
    CHECK(bytes == 12 * parameters);
    CHECK(index.at("version") == 2);
    CHECK(index.at("seed") == 7);
    CHECK(index.at("position").at("next_sample") == 24);
    CHECK(index.at("written_by").get<std::string>().starts_with("lockstep 0."));
    CHECK(index.at("tensors").at("master.wte").at("shape") == nlohmann::json{61, 32});
    std::string const text = index.at("configuration").dump();
    for (char const* pair : {"[\"--lr\",\"0.01\"]", "[\"ranks\",\"2\"]", "[\"--dropout\",\"0.1\"]"})
        CHECK_MESSAGE(count(text, pair) == 1, pair);
}

TEST_CASE("what the flags change after a resume is said") {
    CheckpointPlace const place;
    run_well(1, place.steps(2) + Words{"--save", place.saved});
    CHECK(count(run_well(1, place.steps(3) + Words{"--resume", place.saved}).out, "changed since it was saved: --steps 2 -> 3\n") == 1);
    Words other  = place.steps(2);
    other.back() = "2", *(std::find(other.begin(), other.end(), "--lr") + 1) = "0.02";
    CHECK(count(run_well(1, other + Words{"--resume", place.saved}).out, "changed since it was saved: --lr 0.01 -> 0.02\n") == 1);
    Ended const same = run_well(1, place.steps(2) + Words{"--resume", place.saved});
    CHECK(count(same.out, "changed") == 0);
    CHECK(count(same.out, "resumed from version 2 of " + place.saved) == 1);
}

TEST_CASE("a checkpoint of a model that computes something else is refused, whatever its shapes") {
    CheckpointPlace const place;
    run_well(1, place.steps(2) + Words{"--save", place.saved});
    Words       other   = place.steps(3);
    auto const  heads   = std::find(other.begin(), other.end(), "--heads") + 1;
    std::string was     = *heads;
    *heads              = "1";
    Ended const refused = run(2, other + Words{"--resume", place.saved});
    CHECK(refused.code == 2);
    CHECK_MESSAGE(count(refused.err, "index.json: expected a model with heads 1, found " + was) == 1, refused.err);
}

/// How often each of them is killed; LOCKSTEP_KILLS=16 makes it a long test, of all strategies on 1, 2 and 4 ranks.
int kills() {
    char const* const wanted = std::getenv("LOCKSTEP_KILLS");
    return wanted != nullptr ? std::atoi(wanted) : 2;
}
std::vector<Way> killed_ways() {
    std::vector<Way> all{{1, "single"}, {2, "replicated"}, {2, "sharded"}, {4, "sharded-optimizer"}, {4, "sharded"}, {4, "hybrid"}};
    if (std::getenv("LOCKSTEP_KILLS") == nullptr) return all;
    all = {{1, "single"}};
    for (int const ranks : {1, 2, 4})
        for (char const* strategy : {"replicated", "sharded", "sharded-optimizer", "hybrid"}) all.push_back({ranks, strategy});
    return all;
}

/// All of its bytes have their checksums.
void check_loads(std::string const& saved) {
    namespace io = lockstep::io;
    io::CheckpointReader reader(saved);
    auto const           index = nlohmann::json::parse(read_all(reader.name()));
    for (auto const& [name, tensor] : index.at("tensors").items()) {
        std::size_t elements = 1, read = 0;
        for (auto const& extent : tensor.at("shape")) elements *= extent.get<std::size_t>();
        lockstep::Range const whole{0, elements};
        reader.read(name, std::span(&whole, 1), [&](lockstep::Range part, auto&&) { read += part.size(); });
        CHECK(read == elements);
    }
}

TEST_CASE("killed while a checkpoint is being written, the one before continues to the same weights") {
    for (Way const& way : {ways[0], ways[2]}) {
        CheckpointPlace place;
        *(std::find(place.flags.begin(), place.flags.end(), "--dim") + 1) = "128";  // writing takes a while
        Words const how  = place.steps(6) + Words{"--strategy", way.strategy, "--export", place.out};
        Words const save = Words{"--save", place.saved, "--save-every", "2"};
        run_well(way.ranks, how);
        std::string const weights = place.exported();
        bool              struck  = false;
        for (int tries = 0; tries < 5 && !struck; ++tries) {
            fs::remove_all(place.saved);
            Background run(place.folder, way.ranks, how + save);
            REQUIRE(run.wait([&] { return fs::exists(place.saved + "/step-0000000002"); }));
            static_cast<void>(run.wait([&] { return !strangers(place.saved).empty(); }));
            run.signal(way.ranks - 1, SIGKILL);
            struck = run.end().code != 0 && !strangers(place.saved).empty();
        }
        CHECK(struck);
        check_loads(place.saved);
        fs::remove_all(place.out);
        run_well(way.ranks, how + save + Words{"--resume", place.saved});
        CHECK(place.exported() == weights);
        CHECK(strangers(place.saved).empty());
    }
}

TEST_CASE("killed at any moment, the newest complete checkpoint continues to the same weights") {
    std::uint32_t random = 1;
    auto const    below  = [&](std::uint32_t bound) {
        random = random * 1664525u + 1013904223u;
        return static_cast<int>((random >> 8) % bound);
    };
    for (Way const& way : killed_ways()) {
        CheckpointPlace const place;
        Words const group = std::string_view(way.strategy) == "hybrid" ? Words{"--shard-group", way.ranks == 1 ? "1" : "2"} : Words{};
        Words const how   = place.steps(60) + group + Words{"--strategy", way.strategy, "--export", place.out};
        run_well(way.ranks, how);
        std::string const weights = place.exported();
        Words const       save{"--save", place.saved, "--save-every", "2", "--keep", "2"};
        auto const        latest = [&] { return fs::exists(place.saved + "/latest") ? read_all(place.saved + "/latest") : std::string(); };
        CAPTURE(way.ranks);
        for (int killed = 0; killed < kills();) {
            std::string const begun  = latest();
            Words const       resume = begun.empty() ? Words{} : Words{"--resume", place.saved};
            Background        run(place.folder, way.ranks, how + save + resume);
            if (below(4) != 0) (void)run.wait([&] { return latest() != begun; });  // else perhaps before it has read anything
            std::this_thread::sleep_for(std::chrono::milliseconds(below(30)));
            for (int rank = 0, all = below(3), one = below(static_cast<std::uint32_t>(way.ranks)); rank < way.ranks; ++rank)
                if (all == 0 || rank == one) run.signal(rank, SIGKILL);
            Ended const& ended = run.end();
            CHECK_MESSAGE(ended.code != 2, ended.err);
            CHECK_MESSAGE(ended.code != -1, "a rank is killed and the others go on");
            CHECK_MESSAGE(count(ended.err, "expected") == 0, ended.err);
            if (!latest().empty()) check_loads(place.saved);
            if (ended.code != 0) {
                ++killed;
            } else {  // it came to its end before
                CHECK(place.exported() == weights);
                fs::remove_all(place.saved);
            }
            fs::remove_all(place.out);
        }
        run_well(way.ranks, how + save + (latest().empty() ? Words{} : Words{"--resume", place.saved}));
        CHECK(place.exported() == weights);
        CHECK(strangers(place.saved).empty());
        CHECK(checkpoints(place.saved) == 2);
    }
}

enum class To { one_rank, launcher, all };  // all: as a terminal does it

TEST_CASE("SIGTERM or SIGINT to one rank, the launcher or all ends all after their step, saved and with exit code 0") {
    struct Case {
        Way way;
        int number;
        To  to = To::one_rank;
    };
    for (auto const& [way, number, to] : {Case{ways[0], SIGTERM},
                                          {ways[0], SIGINT},
                                          {ways[1], SIGTERM},
                                          {ways[2], SIGINT},
                                          {ways[1], SIGTERM, To::launcher},
                                          {ways[1], SIGINT, To::launcher},
                                          {ways[1], SIGINT, To::all},
                                          {ways[2], SIGTERM, To::all}}) {
        CheckpointPlace const place;
        Words const           flags = place.flags + Words{"--strategy", way.strategy, "--metrics", place.metrics};
        Background run(place.folder, way.ranks, flags + Words{"--steps", "100000", "--save", place.saved, "--export", place.out});
        REQUIRE(run.wait([&] { return fs::exists(place.metrics) && count(read_all(place.metrics), "\n") > 3; }));
        if (to != To::one_rank) run.signal_launcher(number);
        for (int rank = to == To::all ? 0 : way.ranks - 1; to != To::launcher && rank < way.ranks; ++rank) run.signal(rank, number);
        Ended const& ended = run.end();
        INFO(ended.err);
        CHECK(ended.code == 0);
        CHECK(ended.err.empty());
        CHECK_FALSE(fs::exists(place.out));
        std::string const steps = std::to_string(read_lines(place.metrics).size());
        CHECK(count(ended.out, "stopped at version " + steps + " by " + (number == SIGINT ? "SIGINT" : "SIGTERM")) == 1);
        CHECK(newest(place.saved) == place.saved + "/step-" + std::string(10 - steps.size(), '0') + steps);
    }
}

TEST_CASE("two signals at once are one, as `timeout` sends them") {
    CheckpointPlace const place;
    Background            run(place.folder, 1, place.flags + Words{"--steps", "100000", "--metrics", place.metrics, "--save", place.saved});
    REQUIRE(run.wait([&] { return fs::exists(place.metrics) && count(read_all(place.metrics), "\n") > 3; }));
    run.signal(0, SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    run.signal(0, SIGTERM);
    CHECK(run.end().code == 0);
    CHECK(fs::exists(place.saved + "/latest"));
}

TEST_CASE("a signal ends an evaluation and a sample, and the run is saved") {
    CheckpointPlace const place;
    std::string const     held_out = place.folder.write("held_out.bin", shard(some_tokens(16 * 200'000 + 1, 61)));  // takes minutes
    for (int const ranks : {1, 2}) {
        Background run(place.folder, ranks,
                       place.steps(3) + Words{"--val-data", held_out, "--eval-every", "2", "--metrics", place.metrics, "--save",
                                              place.saved, "--save-every", "1"});
        REQUIRE(run.wait([&] { return fs::exists(place.saved + "/step-0000000001"); }));  // published while version 2 is evaluated
        auto const begin = std::chrono::steady_clock::now();
        run.signal(0, SIGTERM);
        Ended const& ended = run.end();
        INFO(ended.out);
        CHECK(ended.code == 0);
        CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
        CHECK(count(ended.out, "validation loss") == 0);
        CHECK(newest(place.saved) == place.saved + "/step-0000000002");
        CHECK(read_lines(place.metrics).size() == 2);
        CHECK_FALSE(read_lines(place.metrics).back().contains("val_loss"));

        Words const little{"--val-data",  place.data, "--eval-every", "2",      "--metrics",
                           place.metrics, "--resume", place.saved,    "--save", place.saved};
        CHECK(count(run_well(ranks, place.steps(2) + little).out, "validation loss") == 1);  // which belongs to version 2
        CHECK(read_lines(place.metrics).size() == 3);
        CHECK(read_lines(place.metrics).back().at("resumed_from") == 2);
        CHECK(read_lines(place.metrics).back().at("val_loss").get<double>() > 0);
        run_well(ranks, place.steps(3) + little);  // once
        CHECK_FALSE(read_lines(place.metrics)[3].contains("val_loss"));
        fs::remove_all(place.saved), fs::remove(place.metrics);
    }
    Words flags                                              = place.steps(1) + Words{"--save", place.saved, "--export", place.out};
    *(std::find(flags.begin(), flags.end(), "--sample") + 1) = "100000000";
    Background run(place.folder, 1, flags);
    REQUIRE(run.wait([&] { return fs::exists(place.saved + "/latest"); }));
    run.signal(0, SIGTERM);
    CHECK(run.end().code == 0);
    CHECK(fs::exists(place.out + "/model.safetensors"));
}

TEST_CASE("a run that forgets --resume says what it finds, keeps it, and leaves nothing where it has done nothing") {
    CheckpointPlace const place;
    run_well(1, place.steps(5) + Words{"--save", place.saved});
    Ended const fresh = run_well(1, place.steps(3) + Words{"--save", place.saved, "--save-every", "1", "--keep", "1"});
    CHECK(count(fresh.out, "--save " + place.saved + " holds version 5 of a run that this one does not continue: it stays ") == 1);
    CHECK(checkpoints(place.saved) == 2);
    CHECK(newest(place.saved) == place.saved + "/step-0000000003");
    Ended const back =
        run_well(1, place.steps(6) + Words{"--save", place.saved, "--keep", "1", "--resume", place.saved + "/step-0000000005"});
    CHECK(count(back.out, "--save " + place.saved + " holds version 3 of a run that this one does not continue: it stays ") == 1);
    CHECK(newest(place.saved) == place.saved + "/step-0000000006");  // in the place of its version 5, not of the other run's 3
    CHECK(fs::exists(place.saved + "/step-0000000003"));
    CHECK(checkpoints(place.saved) == 2);

    // one that goes back stays away from what it leaves behind, also when it has come past it
    run_well(1, place.steps(7) + Words{"--save", place.saved, "--save-every", "1", "--resume", place.saved});
    Words const again{"--save", place.saved, "--keep", "1", "--resume"};
    run_well(1, place.steps(8) + again + Words{place.saved + "/step-0000000006"});
    run_well(1, place.steps(9) + again + Words{place.saved});
    CHECK(fs::exists(place.saved + "/step-0000000007"));
    CHECK_FALSE(fs::exists(place.saved + "/step-0000000008"));

    std::string const other = place.folder / "other";  // a run that goes on in another folder takes nothing there for its own
    run_well(1, place.steps(2) + Words{"--save", other});
    CHECK(count(run_well(1, place.steps(10) + Words{"--save", other, "--keep", "1", "--resume", place.saved}).out, "does not continue") ==
          1);
    CHECK(checkpoints(other) == 2);
    CHECK(count(run_well(1, place.steps(11) + Words{"--save", other, "--keep", "1", "--resume", other}).out, "does not continue") == 1);
    CHECK(fs::exists(other + "/step-0000000002"));
    CHECK(checkpoints(other) == 2);
}

TEST_CASE("another global batch that divides the samples used continues behind them") {
    CheckpointPlace const place;
    run_well(1, place.steps(2) + Words{"--save", place.saved});  // 24 samples
    Words half                                                   = place.steps(4);
    *(std::find(half.begin(), half.end(), "--global-batch") + 1) = "6";
    run_well(1, half + Words{"--resume", place.saved, "--save", place.saved});
    auto const index = nlohmann::json::parse(read_all(newest(place.saved) + "/index.json"));
    CHECK(index.at("version") == 4);
    CHECK(index.at("position").at("next_sample") == 24 + 2 * 6);
}

TEST_CASE("a second signal ends the process at once") {
    CheckpointPlace const place;
    Words                 flags = place.steps(100000) + Words{"--layers", "12", "--metrics", place.metrics, "--save", place.saved};
    flags.erase(std::find(flags.begin(), flags.end(), "--layers"), std::find(flags.begin(), flags.end(), "--heads"));
    *(std::find(flags.begin(), flags.end(), "--dim") + 1) = "768";
    Background run(place.folder, 1, flags);
    REQUIRE(run.wait([&] { return fs::exists(place.metrics) && !read_all(place.metrics).empty(); }));
    run.signal(0, SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));  // two at once are one
    run.signal(0, SIGTERM);
    Ended const& ended = run.end();
    CHECK(ended.code == 128 + SIGTERM);
    CHECK(count(ended.out, "stopped") == 0);
}

}  // namespace checkpoint_test
