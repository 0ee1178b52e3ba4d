// What ranks must have in common is compared before the run begins: exit code 3 and one line that names it, nothing written, nobody waits.

#include "program.hpp"

namespace disagreement_test {

using namespace lockstep::test;
namespace fs = std::filesystem;

struct Place {
    Folder      folder;
    std::string data  = folder.write("data.bin", shard(some_tokens(400, 50)));
    Words       right = {"--data", data, "--layers", "1",  "--heads", "2", "--dim",     "16",
                         "--ffn",  "32", "--vocab",  "50", "--seq",   "8", "--threads", "1"};

    void check(Words const& first, Words const& second, int code, Words const& says) const {
        Ended const ended = run_apart(right + first, right + second);
        CAPTURE(joined(first));
        CAPTURE(joined(second));
        CAPTURE(ended.err);
        CHECK(ended.code == code);
        CHECK(count(ended.err, "\n") == 1);
        CHECK(ended.out.empty());
        for (std::string const& words : says) CHECK_MESSAGE(count(ended.err, words) != 0, "must say: ", words);
    }
};

TEST_CASE("a flag that differs between ranks is named with both values") {
    Place const place;
    struct Flag {
        char const *name, *one, *other;
    };
    for (Flag const& flag : {Flag{"--lr", "0.1", "0.10000001"},
                             {"--schedule", "cosine", "constant"},
                             {"--ignore-label", "3", nullptr},
                             {"--order", "sequential", "shuffled"},
                             {"--val-fraction", "0.2", "0.1"},
                             {"--isa", "scalar", nullptr},
                             {"--precision", "fp32", "bf16"},
                             {"--steps", "3", "4"},
                             {"--eval-every", "1", "250"},
                             {"--init", "none.safetensors", nullptr},
                             {"--strategy", "sharded", "replicated"},
                             {"--export", "out", nullptr},
                             {"--metrics", "m.jsonl", nullptr},
                             {"--seed", "1", "2"},
                             {"--dropout", "0.1", nullptr},
                             {"--beta2", "0.99", nullptr},
                             {"--sample", "3", "0"},
                             {"--prompt", "x", nullptr},
                             {"--preset", "shakespeare-cpu", "demo"},
                             {"--recompute", "block", nullptr},
                             {"--unit-blocks", "2", nullptr},
                             {"--accumulate", "sharded", nullptr},
                             {"--optimizer", "sgd", nullptr}}) {
        Words const       one{flag.name, flag.one}, other = flag.other == nullptr ? Words{} : Words{flag.name, flag.other};
        std::string const value = flag.other == nullptr ? "rank 1 has " : std::string("rank 1 has ") + flag.other + ", ";
        place.check(one, other, 3,
                    {std::string(flag.name) + ": ", value, std::string("rank 0 has ") + flag.one, "give all ranks the same flags"});
    }
    place.check({}, {"--help"}, 3, {"--help: rank 1 has been asked, rank 0 has not been asked"});
    CHECK_FALSE(fs::exists("out"));
    CHECK_FALSE(fs::exists("m.jsonl"));
}

TEST_CASE("another version of lockstep is named, before its flags are") {
    Place const place;
    auto const  rank  = [&](char const* program, Words const& more) { return Words{"-n", "1", program} + place.right + more; };
    Ended const ended = run_command(
        Words{LOCKSTEP_MPIEXEC} + rank(LOCKSTEP_TRAIN_GPT, {"--lr", "fast"}) + Words{":"} + rank(LOCKSTEP_OTHER_VERSION, {}), 60);
    INFO(ended.err);
    CHECK(ended.code == 3);
    CHECK(count(ended.err, "lockstep: rank 1 has 9.9.9, rank 0 has 0.") == 1);
    CHECK(count(ended.err, "start the same program on all ranks") == 1);
    CHECK(count(ended.err, "\n") == 1);
}

TEST_CASE("flags that cannot be used on one rank alone are an error of all, with that rank") {
    Place const place;
    place.check({}, {"--lr", "fast"}, 2, {"rank 1: --lr: expected a number", "found fast"});
    place.check({"--clip", "-1"}, {}, 2, {"rank 0: --clip: expected a number from 0"});
}

TEST_CASE("ranks may have different numbers of threads, and flags that say what the others leave out") {
    Place const place;
    Words const small = place.right + Words{"--global-batch", "4", "--steps", "2", "--sample", "0"};
    for (auto const& [first, second] : std::vector<std::pair<Words, Words>>{{{"--lr", "0.001"}, {}}, {{}, {"--seed", "1337"}}}) {
        Ended const ended = run_apart(small + first, small + second);
        INFO(ended.err);
        CHECK(ended.code == 0);
        CHECK(ended.err.empty());
    }
    Words threads = small;
    threads.erase(std::find(threads.begin(), threads.end(), "--threads"), std::find(threads.begin(), threads.end(), "--threads") + 2);
    Ended const ended = run_apart(threads + Words{"--threads", "2"}, threads);
    INFO(ended.err);
    CHECK(ended.code == 0);
}

TEST_CASE("files of one name that differ between ranks are found: each rank may have a folder of its own") {
    Place const place;
    auto const& f = place.folder;
    run_well(1, place.right + Words{"--global-batch", "4", "--steps", "1", "--sample", "0", "--export", f / "weights"});
    for (char const* name : {"a", "b"}) {
        fs::create_directory(f / name);
        fs::copy(f / "weights", f / (std::string(name) + "/init"));
    }
    auto ids = some_tokens(400, 50);
    f.write("a/data.bin", shard(ids));
    ids[200] = 7;
    ids[201] = 8;
    f.write("b/data.bin", shard(ids));
    auto bytes = read_all(f / "b/init/model.safetensors");
    bytes[bytes.size() - 3] ^= 1;
    f.write("b/init/model.safetensors", bytes);

    auto const apart = [&](Words const& flags) {
        auto const rank = [&](char const* name) { return Words{"-wdir", f / name, "-n", "1", LOCKSTEP_TRAIN_GPT} + flags; };
        return run_command(Words{LOCKSTEP_MPIEXEC} + rank("a") + Words{":"} + rank("b"), 60);
    };
    Words const small{"--seq", "8", "--global-batch", "4", "--steps", "1", "--sample", "0", "--threads", "1"};
    Words const sizes{"--layers", "1", "--heads", "2", "--dim", "16", "--ffn", "32", "--vocab", "50"};
    for (char const* strategy : {"replicated", "sharded"}) {
        Words const flags = small + Words{"--strategy", strategy};
        auto const  data  = apart(flags + sizes + Words{"--data", "data.bin"});
        INFO(data.err);
        CHECK(data.code == 3);
        CHECK(data.err == "the ranks do not hold the same bytes of --data data.bin: rank 1 differs from rank 0\n");
        auto const init = apart(flags + Words{"--data", place.data, "--init", "init"});
        INFO(init.err);
        CHECK(init.code == 3);
        CHECK(init.err == "the ranks do not hold the same values of init: rank 1 differs from rank 0\n");
    }
    fs::remove_all(f / "b/init");
    fs::remove(f / "b/data.bin");
    auto const init = apart(small + sizes + Words{"--data", place.data, "--init", "init"});
    CHECK(init.code == 2);
    CHECK(init.err == "rank 1: init: expected a file that can be read, found: No such file or directory\n");
    auto const data = apart(small + sizes + Words{"--data", "data.bin"});
    CHECK(data.code == 2);
    CHECK(data.err == "rank 1: data file \"data.bin\": expected a file to read, found that it does not exist\n");
}

}  // namespace disagreement_test
