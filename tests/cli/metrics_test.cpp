// The JSONL file: keys, types, what the numbers must have to do with each other.

#include <sys/resource.h>

#include "../report/metrics_keys.hpp"
#include "program.hpp"

namespace metrics_test {

using namespace lockstep::test;

Words const small{"--layers", "2",  "--heads",        "2",  "--dim",    "32", "--vocab", "64",
                  "--seq",    "16", "--global-batch", "12", "--sample", "0",  "--order", "sequential"};

char const* const categories[]{"params", "master", "grads", "optimizer", "activations", "gathered", "buckets", "scratch"};

bool number_or_null(nlohmann::ordered_json const& value) { return value.is_null() || value.is_number(); }

void check_types(nlohmann::ordered_json const& line) {
    INFO(line.dump());
    std::size_t k = 0;
    for (auto const& [key, value] : line.items()) {
        if (k < metrics_keys.size()) {
            CHECK(key == metrics_keys[k++]);  // in this order
        } else {
            CHECK((key == "val_loss" || key == "nonfinite"));
        }
    }
    CHECK(k == metrics_keys.size());
    for (char const* key : {"step", "tokens", "valid_tokens", "mem_peak_bytes", "mem_peak_forward_bytes", "mem_peak_backward_bytes"})
        CHECK_MESSAGE(line.at(key).is_number_unsigned(), key);
    for (char const* key : {"lr", "loss_scale", "step_ms", "compute_ms", "exposed_comm_ms", "update_ms", "data_ms", "other_ms",
                            "tokens_per_s", "tflops", "mfu"})
        CHECK_MESSAGE(line.at(key).is_number(), key);
    for (char const* key : {"loss", "grad_norm", "late_peer_ms", "comm_ms"}) CHECK_MESSAGE(number_or_null(line.at(key)), key);
    CHECK(line.at("applied").is_boolean());
    CHECK((line.at("skip_reason").is_null() || line.at("skip_reason").is_string()));
    CHECK(line.at("skip_reason").is_null() == line.at("applied").get<bool>());
    CHECK(line.at("mem").size() == std::size(categories));
    for (char const* category : categories) CHECK_MESSAGE(line.at("mem").at(category).is_number_unsigned(), category);

    double sum = 0;
    for (char const* part : {"compute_ms", "exposed_comm_ms", "late_peer_ms", "update_ms", "data_ms", "other_ms"})
        if (line.at(part).is_number()) {
            CHECK_MESSAGE(line.at(part).get<double>() >= 0, part);
            sum += line.at(part).get<double>();
        }
    double const step = line.at("step_ms").get<double>();
    CHECK(step > 0);
    CHECK(std::abs(sum - step) <= 0.01 * step);
    CHECK(line.at("tokens_per_s").get<double>() == doctest::Approx(line.at("tokens").get<double>() / step * 1e3));

    double categories_sum = 0;
    for (auto const& [category, bytes] : line.at("mem").items()) categories_sum += bytes.get<double>();
    double const peak = line.at("mem_peak_bytes").get<double>();
    CHECK(peak >= line.at("mem_peak_forward_bytes").get<double>());
    CHECK(peak >= line.at("mem_peak_backward_bytes").get<double>());
    CHECK(peak > 0);
    CHECK(categories_sum > 0);
}

TEST_CASE("each step is one object with all keys, whose times sum to the step") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(2000, 64)));
    for (int ranks : {1, 2, 3})
        for (char const* precision : {"fp32", "bf16"}) {
            if (ranks == 3 && precision == std::string("bf16")) continue;
            Lines const lines =
                metrics(folder, ranks, small + Words{"--data", data, "--steps", "4", "--eval-every", "3", "--precision", precision});
            CAPTURE(ranks);
            REQUIRE(lines.size() == 4);
            for (std::size_t i = 0; i < lines.size(); ++i) {
                check_types(lines[i]);
                CHECK(lines[i].at("step") == i + 1);
                CHECK(lines[i].at("tokens") == 12 * 16);
                CHECK(lines[i].at("valid_tokens") == 12 * 16);
                CHECK(lines[i].at("applied") == true);
                CHECK(lines[i].at("lr") == 1e-3);
                CHECK(lines[i].at("loss_scale") == 1);
                CHECK_FALSE(lines[i].contains("nonfinite"));
                CHECK(lines[i].contains("val_loss") == (i + 1 == 3 || i + 1 == 4));  // every 3 steps and at the end
            }
        }
}

TEST_CASE("operations are counted as published") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(2000, 64)));
    // gpt2, 2 layers of dim 32, ffn 128: 12 dim^2 each, and the tied head of 64 x 32
    double const gpt2 = 6 * (2 * 12 * 32 * 32 + 64 * 32) + 6.0 * 2 * 32 * 16;
    // llama, ffn 96: queries and output of 32 x 32, keys and values of one of two heads 16 x 32, three matrices of 96 x 32
    double const llama = 6 * (2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 96 * 32) + 64 * 32) + 6.0 * 2 * 32 * 16;
    for (bool const is_llama : {false, true}) {
        Words const arch  = is_llama ? Words{"--arch", "llama", "--kv-heads", "1", "--ffn", "96"} : Words{};
        auto const  lines = metrics(folder, 1, small + arch + Words{"--data", data, "--steps", "2"});
        for (auto const& line : lines)
            CHECK(line.at("tflops").get<double>() * 1e12 ==
                  doctest::Approx(line.at("tokens_per_s").get<double>() * (is_llama ? llama : gpt2)));
    }
}

TEST_CASE("memory per parameter is what the formula says, where weights lie in rows") {
    Folder const        folder;
    std::string const   data       = folder.write("data.bin", shard(some_tokens(2000, 64)));
    std::uint64_t const parameters = 64 * 32 + 16 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 2 * 32;
    for (auto const& [precision, bytes] : std::vector<std::pair<char const*, std::uint64_t>>{{"fp32", 16}, {"bf16", 18}, {"fp16", 18}}) {
        auto const  lines = metrics(folder, 1, small + Words{"--data", data, "--steps", "1", "--precision", precision, "--isa", "scalar"});
        auto const& mem   = lines.at(0).at("mem");
        std::uint64_t sum = 0;
        for (char const* category : {"params", "master", "grads", "optimizer"}) sum += mem.at(category).get<std::uint64_t>();
        std::string const compute = precision;
        CAPTURE(compute);
        CHECK(sum == bytes * parameters);
    }
    auto const half = metrics(folder, 2, small + Words{"--data", data, "--steps", "1", "--precision", "fp32", "--strategy", "sharded"});
    std::uint64_t const sharded = half.at(0).at("mem").at("optimizer").get<std::uint64_t>();
    CHECK(sharded <= 8 * (parameters / 2 + 3 * 64));  // the moments of half of each unit, give or take a granule
    CHECK(sharded >= 8 * (parameters / 2 - 3 * 64));
}

/// The most that a process of its own ever held in memory, bytes.
std::size_t peak_resident(Words words) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    pid_t process = 0;
    REQUIRE(posix_spawn(&process, arguments[0], &actions, nullptr, arguments.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    int    status = 0;
    rusage used{};
    REQUIRE(::wait4(process, &status, 0, &used) == process);
    REQUIRE(status == 0);
    return static_cast<std::size_t>(used.ru_maxrss) * 1024;
}

TEST_CASE("of a step nearly nothing is unattributed, and backward needs more memory than forward in later steps too") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(5000, 64)));
    Words const       flags{"--data", data,  "--vocab",        "64", "--seq",         "128", "--layers", "4", "--heads",  "6",
                      "--dim",  "384", "--global-batch", "16", "--micro-batch", "8",   "--steps",  "4", "--sample", "0"};
    for (int ranks : {1, 2}) {
        CAPTURE(ranks);
        double least = 1;  // share of the step; a busy machine interrupts some of them anywhere
        for (auto const& line : metrics(folder, ranks, flags)) {
            least = std::min(least, line.at("other_ms").get<double>() / line.at("step_ms").get<double>());
            CHECK(line.at("mem_peak_forward_bytes").get<double>() < line.at("mem_peak_backward_bytes").get<double>());
            CHECK(line.at("mem_forward").at("master") == line.at("mem").at("master"));
            CHECK(line.at("mem_forward").at("activations").get<double>() < line.at("mem_backward").at("activations").get<double>());
            CHECK(line.at("hidden_by_compute_ms").get<double>() <= line.at("hidden_comm_ms").get<double>());
            CHECK(line.at("exposed_parameters_ms").get<double>() + line.at("exposed_gradients_ms").get<double>() ==
                  doctest::Approx(line.at("exposed_comm_ms").get<double>()));
        }
        CHECK(least <= 0.01);
    }
}

void check_close(std::size_t resident, std::size_t ledger) {
    CAPTURE(resident >> 20);
    CAPTURE(ledger >> 20);
    CHECK(resident < ledger + ledger / 20 + (std::size_t{64} << 20));
    CHECK(resident + ledger / 20 + (std::size_t{64} << 20) > ledger);
}

TEST_CASE("what the process holds in memory is what the ledger says, within 5 % and 64 MiB") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(5000, 64)));
    for (char const* precision : {"fp32", "bf16"}) {
        Words const       flags{"--data", data,  "--vocab",        "64", "--seq",         "128", "--layers", "4", "--heads",  "6",
                          "--dim",  "384", "--global-batch", "16", "--micro-batch", "16",  "--steps",  "3", "--sample", "0"};
        std::size_t const resident =
            peak_resident(Words{LOCKSTEP_TRAIN_GPT} + flags + Words{"--precision", precision, "--metrics", folder / "m.jsonl"});
        std::size_t ledger = 0;
        for (auto const& line : read_lines(folder / "m.jsonl")) ledger = std::max(ledger, line.at("mem_peak_bytes").get<std::size_t>());
        CHECK(ledger > std::size_t{150} << 20);
        check_close(resident, ledger);
    }
}

/// The most that a rank held in memory and the most that its ledger had booked, bytes.
struct Peaks {
    std::size_t resident = 0, booked = 0;
};

/// Of all ranks of a run. A shell beside each looks how much it has held so far, until it ends.
std::vector<Peaks> peaks_of(Folder const& folder, int ranks, Words const& flags) {
    std::string const watched =
        "file=$1; shift; \"$@\" & while peak=$(grep VmHWM /proc/$!/status 2>/dev/null); do"
        " echo $peak > \"$file.$PMI_RANK\"; sleep 0.01; done; wait $!";
    std::string const trace = folder / "trace.json", resident = folder / "resident";
    Words const       shell{LOCKSTEP_MPIEXEC, "-n", std::to_string(ranks), "sh", "-c", watched, "sh", resident};
    Ended const       ended = run_command(shell + Words{LOCKSTEP_TRAIN_GPT, "--trace", trace} + flags);
    INFO(ended.err);
    REQUIRE(ended.code == 0);
    std::vector<Peaks> peaks(static_cast<std::size_t>(ranks));
    auto const         events = nlohmann::json::parse(read_all(trace)).at("traceEvents");
    for (auto const& event : events) {
        if (event.at("ph") != "C" || event.at("name") != "memory") continue;
        std::size_t sum = 0;
        for (auto const& bytes : event.at("args")) sum += bytes.get<std::size_t>();
        Peaks& rank = peaks.at(event.at("pid").get<std::size_t>());
        rank.booked = std::max(rank.booked, sum);
    }
    for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
        std::string const line = read_all(resident + '.' + std::to_string(rank));  // VmHWM: 123456 kB
        REQUIRE(line.starts_with("VmHWM: "));
        peaks[rank].resident = std::stoul(line.substr(7)) * 1024;
    }
    return peaks;
}

TEST_CASE("so it is on every rank of several") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(5000, 64)));
    Words const       flags{"--data", data,  "--vocab",        "64", "--seq",         "64", "--layers", "4", "--heads",  "6",
                      "--dim",  "768", "--global-batch", "4",  "--micro-batch", "2",  "--steps",  "2", "--sample", "0"};
    for (char const* strategy : {"replicated", "sharded"})
        for (char const* precision : {"fp32", "bf16"}) {
            std::string const way = std::string(strategy) + ' ' + precision;
            CAPTURE(way);
            auto const peaks =
                peaks_of(folder, 2, flags + Words{"--strategy", strategy, "--precision", precision, "--metrics", folder / "m.jsonl"});
            std::size_t first = 0;  // of rank 0, which the ledger has between the trace's moments too
            for (auto const& line : read_lines(folder / "m.jsonl")) first = std::max(first, line.at("mem_peak_bytes").get<std::size_t>());
            CHECK(peaks[0].booked <= first + (std::size_t{1} << 20));  // the records of the trace grow after the last step
            CHECK(peaks[0].booked >= first - first / 100);
            for (Peaks const& rank : peaks) {
                CHECK(rank.booked > std::size_t{350} << 20);
                check_close(rank.resident, rank.booked);
            }
        }
}

TEST_CASE("a step without valid tokens is skipped on every rank and says so") {
    Folder const folder;
    auto         ids = some_tokens(2000, 64);
    std::replace(ids.begin(), ids.end(), 7, 8);
    std::fill(ids.begin(), ids.begin() + 12 * 16 + 1, 7);  // all that the first step reads
    std::string const data = folder.write("data.bin", shard(ids));
    for (int ranks : {1, 2, 4}) {
        CAPTURE(ranks);
        Lines const lines = metrics(folder, ranks, small + Words{"--data", data, "--steps", "2", "--ignore-label", "7"});
        REQUIRE(lines.size() == 3);
        check_types(lines[0]);
        CHECK(lines[0].at("applied") == false);
        CHECK(lines[0].at("skip_reason") == "no valid tokens");
        CHECK(lines[0].at("loss") == 0);
        CHECK(lines[0].at("valid_tokens") == 0);
        CHECK(lines[0].at("step") == 0);  // the version stays
        CHECK(lines[1].at("step") == 1);
        CHECK(lines[2].at("step") == 2);
        CHECK(lines[2].at("applied") == true);
    }
}

TEST_CASE("a run that never has a valid token ends with exit code 4 and one line") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(std::vector<std::int32_t>(600, 7)));
    for (int ranks : {1, 2}) {
        Ended const ended =
            run(ranks, small + Words{"--data", data, "--steps", "2", "--ignore-label", "7", "--metrics", folder / "metrics.jsonl"});
        INFO(ended.err);
        CHECK(ended.code == 4);
        CHECK(count(ended.err, "\n") == 1);
        CHECK(count(ended.err, "skipped") == 1);
        CHECK(count(ended.err, "no valid tokens") == 1);
        CHECK(read_lines(folder / "metrics.jsonl").size() == 100);
    }
}

TEST_CASE("numbers that are not finite are null, are marked, and end the run with exit code 4") {
    Folder const      folder;
    std::string const data = folder.write("data.bin", shard(some_tokens(2000, 64)));
    run_well(1, small + Words{"--data", data, "--steps", "0", "--export", folder / "weights"});
    std::string bytes = read_all(folder / "weights/model.safetensors");
    for (std::size_t i = bytes.size() - 64; i < bytes.size(); i += 4) bytes.replace(i, 4, std::string("\xFF\xFF\x7F\x7F", 4));  // 3.4e38
    folder.write("weights/model.safetensors", bytes);
    for (int ranks : {1, 2}) {
        CAPTURE(ranks);
        Ended const ended = run(ranks, small + Words{"--data", data, "--steps", "2", "--init", folder / "weights", "--metrics",
                                                     folder / "metrics.jsonl", "--export", folder / "out"});
        INFO(ended.err);
        CHECK(ended.code == 4);
        CHECK(count(ended.err, "\n") == 1);
        CHECK(count(ended.err, "non-finite") == 1);
        Lines const lines = read_lines(folder / "metrics.jsonl");
        REQUIRE(lines.size() == 100);
        check_types(lines[0]);
        CHECK(lines[0].at("loss").is_null());
        CHECK(lines[0].at("nonfinite") == true);
        CHECK(lines[0].at("applied") == false);
        CHECK(lines[0].at("skip_reason") == "non-finite loss or gradient");
        CHECK_FALSE(std::filesystem::exists(folder / "out"));
    }
}

TEST_CASE("fp16 starts with a loss scale of 65536 and halves it where a gradient overflows") {
    Folder const      folder;
    std::string const data  = folder.write("data.bin", shard(some_tokens(2000, 64)));
    Lines const       lines = metrics(folder, 2, small + Words{"--data", data, "--steps", "3", "--precision", "fp16"});
    CHECK(lines.at(0).at("loss_scale") == 65536);
    for (std::size_t i = 1; i < lines.size(); ++i)
        CHECK(lines[i].at("loss_scale").get<double>() ==
              lines[i - 1].at("loss_scale").get<double>() * (lines[i - 1].at("applied").get<bool>() ? 1 : 0.5));
}

}  // namespace metrics_test
