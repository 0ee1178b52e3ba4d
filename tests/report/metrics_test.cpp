#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/report/metrics.hpp"
#include "metrics_keys.hpp"

namespace metrics_test {

using namespace lockstep::report;
using nlohmann::ordered_json;

std::vector<std::string> const keys(lockstep::test::metrics_keys.begin(), lockstep::test::metrics_keys.end());

std::vector<std::string> keys_of(ordered_json const& object) {
    std::vector<std::string> names;
    for (auto const& [key, value] : object.items()) names.push_back(key);
    return names;
}

struct MetricsPath {
    std::filesystem::path path = std::filesystem::temp_directory_path() / ("lockstep_metrics_test_" + std::to_string(::getpid()));
    ~MetricsPath() {
        std::error_code ignored;
        std::filesystem::remove(path, ignored);
    }
    std::vector<std::string> lines() const {
        std::vector<std::string> all;
        std::ifstream            in(path);
        for (std::string line; std::getline(in, line);) all.push_back(line);
        return all;
    }
};

template <class Call>
std::string refusal(Call&& call) {
    try {
        call();
    } catch (lockstep::Error const& error) {
        return error.fault() == lockstep::Fault::input ? error.what() : "not an input error";
    }
    return {};
}

bool contains(std::string const& text, std::string const& part) { return text.find(part) != text.npos; }

TEST_CASE("a step without measurements has every key, in the documented order, as null") {
    auto const read = ordered_json::parse(to_json({.step = 1}));
    CHECK(keys_of(read) == keys);
    for (auto const& [key, value] : read.items()) {
        CHECK((value.is_null() || value.is_object() || key == "step" || key == "applied"));
        if (!value.is_object()) continue;
        CHECK(key.starts_with("mem"));
        CHECK(keys_of(value) ==
              std::vector<std::string>{"params", "master", "grads", "optimizer", "activations", "gathered", "buckets", "scratch"});
        for (auto const& [category, bytes] : value.items()) CHECK(bytes.is_null());
    }
    CHECK(read["step"] == 1);
    CHECK(read["applied"] == true);
}

TEST_CASE("what was measured reads back under its own key") {
    StepMetrics step{.step         = 7,
                     .loss         = 1.5,
                     .grad_norm    = 2.5,
                     .lr           = 1e-3,
                     .tokens       = 768,
                     .valid_tokens = 700,
                     .applied      = false,
                     .skip_reason  = "gradient not \"finite\"",
                     .loss_scale   = 65536};
    double      number = 10;
    for (auto member : {&StepMetrics::step_ms, &StepMetrics::compute_ms, &StepMetrics::exposed_comm_ms, &StepMetrics::late_peer_ms,
                        &StepMetrics::update_ms, &StepMetrics::data_ms, &StepMetrics::other_ms, &StepMetrics::comm_ms,
                        &StepMetrics::tokens_per_s, &StepMetrics::tflops, &StepMetrics::mfu, &StepMetrics::exposed_parameters_ms,
                        &StepMetrics::exposed_gradients_ms, &StepMetrics::hidden_comm_ms, &StepMetrics::hidden_by_compute_ms})
        step.*member = number++;
    step.mem_peak_bytes          = 100;
    step.mem_peak_forward_bytes  = 101;
    step.mem_peak_backward_bytes = 102;
    for (std::size_t i = 0; i < step.mem.size(); ++i) step.mem[i] = 200 + i, step.mem_forward[i] = 300 + i, step.mem_backward[i] = 400 + i;
    step.val_loss       = 3.25;
    auto const read     = ordered_json::parse(to_json(step));
    auto const expected = ordered_json::parse(R"({"step": 7, "loss": 1.5, "grad_norm": 2.5, "lr": 0.001, "tokens": 768, "valid_tokens": 700,
        "applied": false, "skip_reason": "gradient not \"finite\"", "loss_scale": 65536.0, "step_ms": 10.0, "compute_ms": 11.0,
        "exposed_comm_ms": 12.0, "late_peer_ms": 13.0, "update_ms": 14.0, "data_ms": 15.0, "other_ms": 16.0, "comm_ms": 17.0,
        "tokens_per_s": 18.0, "tflops": 19.0, "mfu": 20.0,
        "mem_peak_bytes": 100, "mem_peak_forward_bytes": 101, "mem_peak_backward_bytes": 102,
        "mem": {"params": 200, "master": 201, "grads": 202, "optimizer": 203, "activations": 204,
        "gathered": 205, "buckets": 206, "scratch": 207},
        "exposed_parameters_ms": 21.0, "exposed_gradients_ms": 22.0, "hidden_comm_ms": 23.0, "hidden_by_compute_ms": 24.0,
        "mem_forward": {"params": 300, "master": 301, "grads": 302, "optimizer": 303, "activations": 304,
        "gathered": 305, "buckets": 306, "scratch": 307},
        "mem_backward": {"params": 400, "master": 401, "grads": 402, "optimizer": 403, "activations": 404,
        "gathered": 405, "buckets": 406, "scratch": 407},
        "val_loss": 3.25})");
    CHECK(read == expected);
}

TEST_CASE("a number that is not finite is null and flagged, the others stay") {
    for (double const bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
        auto const read = ordered_json::parse(to_json({.step = 1, .loss = 2.0, .grad_norm = bad}));
        CHECK(read["nonfinite"] == true);
        CHECK(read["grad_norm"].is_null());
        CHECK(read["loss"] == 2.0);
        CHECK(ordered_json::parse(to_json({.step = 1, .val_loss = bad}))["val_loss"].is_null());
    }
    CHECK(!ordered_json::parse(to_json({.step = 1, .loss = 2.0})).contains("nonfinite"));
}

TEST_CASE("a file holds one object a line, readable after every step") {
    MetricsPath const file;
    MetricsFile       metrics(file.path);
    for (std::uint64_t step = 1; step <= 3; ++step) {
        metrics.write({.step = step, .loss = 1.0 / static_cast<double>(step)});
        auto const lines = file.lines();
        REQUIRE(lines.size() == step);
        CHECK(ordered_json::parse(lines.back())["step"] == step);
    }
}

TEST_CASE("a new run starts the file again, a resumed one appends, also after a line that was cut short") {
    MetricsPath const file;
    MetricsFile(file.path).write({.step = 1});
    MetricsFile(file.path).write({.step = 2});
    CHECK(file.lines().size() == 1);
    MetricsFile(file.path, FileMode::append).write({.step = 3});
    CHECK(file.lines().size() == 2);
    std::ofstream(file.path, std::ios::app) << R"({"step": 4, "lo)";
    MetricsFile(file.path, FileMode::append).write({.step = 4});
    auto const lines = file.lines();
    REQUIRE(lines.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(ordered_json::parse(lines[i])["step"] == i + 2);
    std::ofstream(file.path, std::ios::app) << R"({"step": 5, "mem": {"masters": 1}})";  // whole but for its end
    MetricsFile(file.path, FileMode::append).write({.step = 6});
    REQUIRE(file.lines().size() == 5);
    CHECK(ordered_json::parse(file.lines()[3])["step"] == 5);
    std::ofstream(file.path) << R"({"step": 1, "mem": {"masters": 1}, )";  // cut at the first line
    MetricsFile(file.path, FileMode::append).write({.step = 1});
    CHECK(file.lines().size() == 1);
    CHECK(ordered_json::parse(file.lines()[0])["step"] == 1);
    std::ofstream(file.path) << "somebody's {text";
    MetricsFile(file.path, FileMode::append).write({.step = 1});
    CHECK(file.lines()[0] == "somebody's {text");
    CHECK(file.lines().size() == 2);
    MetricsFile(file.path, FileMode::append).write_resumed(2);
    CHECK(file.lines().back() == R"({"resumed_from": 2})");
    std::filesystem::remove(file.path);
    MetricsFile(file.path, FileMode::append).write({.step = 5});
    CHECK(file.lines().size() == 1);
}

TEST_CASE("a file that cannot be opened or written is an input error that names it") {
    auto const folder = std::filesystem::temp_directory_path();
    CHECK(contains(refusal([&] { MetricsFile{folder}; }), "expected a file, found a directory"));
    std::string const missing = refusal([&] { MetricsFile(folder / "lockstep_no_such_folder" / "m.jsonl"); });
    CHECK(contains(missing, "m.jsonl"));
    CHECK(contains(missing, "No such file or directory"));
    auto const pipe = folder / ("lockstep_pipe_" + std::to_string(::getpid()));
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK(contains(refusal([&] { MetricsFile{pipe}; }), "expected a file, found a pipe"));  // opening it would wait for a reader
    std::filesystem::remove(pipe);
    if (std::filesystem::exists("/dev/full")) {
        MetricsFile       full("/dev/full");
        std::string const sentence = refusal([&] { full.write({.step = 9}); });
        CHECK(contains(sentence, "/dev/full"));
        CHECK(contains(sentence, "step 9 cannot be written: No space left on device"));
    }
}

}  // namespace metrics_test
