#pragma once
// What is known of a step, and the JSONL file it goes to: one object a step.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/observe/ledger.hpp"
#include "lockstep/report/json.hpp"

namespace lockstep::report {

/// Bytes by ledger category; empty where not measured.
using BytesByCategory = std::array<std::optional<std::uint64_t>, observe::categories>;

/// One step. What was not measured stays empty and is written as null, never invented.
struct StepMetrics {
    std::uint64_t                step = 0;  // version after the step, from 1
    std::optional<double>        loss{};
    std::optional<double>        grad_norm{};  // before clipping
    std::optional<double>        lr{};
    std::optional<std::uint64_t> tokens{};
    std::optional<std::uint64_t> valid_tokens{};
    bool                         applied = true;
    std::string                  skip_reason{};  // empty: none
    std::optional<double>        loss_scale{};

    std::optional<double> step_ms{};  // the sum of the six that follow
    std::optional<double> compute_ms{};
    std::optional<double> exposed_comm_ms{};
    std::optional<double> late_peer_ms{};
    std::optional<double> update_ms{};
    std::optional<double> data_ms{};
    std::optional<double> other_ms{};
    std::optional<double> comm_ms{};  // busy time of the wire
    std::optional<double> tokens_per_s{};
    std::optional<double> tflops{};
    std::optional<double> mfu{};  // fraction of the measured peak of this machine's compute type

    // More of the communication.
    std::optional<double> exposed_parameters_ms{};  // of exposed_comm_ms: waiting for parameters
    std::optional<double> exposed_gradients_ms{};   // of exposed_comm_ms: waiting for gradients, and for what is summed with them
    std::optional<double> hidden_comm_ms{};         // of comm_ms: while the step's thread did something else
    std::optional<double> hidden_by_compute_ms{};   // of hidden_comm_ms

    std::optional<std::uint64_t> mem_peak_bytes{};
    std::optional<std::uint64_t> mem_peak_forward_bytes{};
    std::optional<std::uint64_t> mem_peak_backward_bytes{};
    BytesByCategory              mem{};           // held, at most
    BytesByCategory              mem_forward{};   // needed by forward, at most: of arenas only what was in use
    BytesByCategory              mem_backward{};  // by backward

    std::optional<double> val_loss{};  // left out where not measured
};

/// The step as one line of JSON, without its end of line.
inline std::string to_json(StepMetrics const& m) {
    auto const by_category = [](BytesByCategory const& bytes) {
        JsonWriter object;
        for (std::size_t i = 0; i < observe::categories; ++i)
            if (auto const category = static_cast<observe::Category>(i); category != observe::Category::data)
                object.add(name(category), bytes[i]);
        return object.text();
    };
    JsonWriter line;
    line.add("step", m.step).add("loss", m.loss).add("grad_norm", m.grad_norm).add("lr", m.lr);
    line.add("tokens", m.tokens).add("valid_tokens", m.valid_tokens).add("applied", m.applied);
    if (m.skip_reason.empty())
        line.raw("skip_reason", "null");
    else
        line.add_text("skip_reason", m.skip_reason);
    line.add("loss_scale", m.loss_scale).add("step_ms", m.step_ms).add("compute_ms", m.compute_ms);
    line.add("exposed_comm_ms", m.exposed_comm_ms).add("late_peer_ms", m.late_peer_ms).add("update_ms", m.update_ms);
    line.add("data_ms", m.data_ms).add("other_ms", m.other_ms).add("comm_ms", m.comm_ms);
    line.add("tokens_per_s", m.tokens_per_s).add("tflops", m.tflops).add("mfu", m.mfu);
    line.add("mem_peak_bytes", m.mem_peak_bytes).add("mem_peak_forward_bytes", m.mem_peak_forward_bytes);
    line.add("mem_peak_backward_bytes", m.mem_peak_backward_bytes).raw("mem", by_category(m.mem));
    line.add("exposed_parameters_ms", m.exposed_parameters_ms).add("exposed_gradients_ms", m.exposed_gradients_ms);
    line.add("hidden_comm_ms", m.hidden_comm_ms).add("hidden_by_compute_ms", m.hidden_by_compute_ms);
    line.raw("mem_forward", by_category(m.mem_forward)).raw("mem_backward", by_category(m.mem_backward));
    if (m.val_loss) line.add("val_loss", m.val_loss);
    if (line.nonfinite()) line.add("nonfinite", true);
    return line.text();
}

enum class FileMode { truncate, append };

/// A JSONL file that is whole after every line. Appending (on resume) mends a line that a killed run left open.
class MetricsFile {
public:
    explicit MetricsFile(std::filesystem::path path, FileMode mode = FileMode::truncate) : path_(std::move(path)) {
        std::error_code failed;
        if (std::filesystem::is_directory(path_, failed)) input_error("metrics file ", path_, ": expected a file, found a directory");
        auto const kind = std::filesystem::status(path_, failed).type();
        if (kind == std::filesystem::file_type::fifo || kind == std::filesystem::file_type::socket ||
            kind == std::filesystem::file_type::block)
            input_error("metrics file ", path_, ": expected a file, found ",
                        kind == std::filesystem::file_type::block ? "a disk" : "a pipe, which would wait for its reader");
        if (mode == FileMode::append) mend();
        errno = 0;
        out_.open(path_, std::ios::binary | (mode == FileMode::append ? std::ios::app : std::ios::trunc));
        if (!out_) input_error("metrics file ", path_, ": cannot be opened for writing: ", std::generic_category().message(errno));
    }

    void write(StepMetrics const& step) { write(to_json(step), step.step); }

    /// Steps above this version follow, some of them perhaps for the second time.
    /// `val_loss`: of an evaluation that the step before was interrupted in.
    void write_resumed(std::uint64_t version, std::optional<double> val_loss = {}) {
        JsonWriter line;
        line.add("resumed_from", version);
        if (val_loss) line.add("val_loss", *val_loss);
        write(line.text(), version);
    }

private:
    void write(std::string const& line, std::uint64_t step) {
        errno = 0;
        out_ << line << '\n' << std::flush;
        if (!out_)
            input_error("metrics file ", path_, ": step ", step,
                        " cannot be written: ", errno != 0 ? std::generic_category().message(errno) : "the stream failed");
    }

    /// A last line without an end gets one, unless it is one of ours that was cut: that goes, as its step is done again.
    void mend() const {
        std::ifstream in(path_, std::ios::binary | std::ios::ate);
        std::string   line;
        auto const    size = static_cast<std::streamoff>(in.tellg());
        for (std::streamoff at = size - 1; in && at >= 0 && line.size() < 100'000; --at) {
            in.seekg(at);
            auto const letter = static_cast<char>(in.get());
            if (letter == '\n') break;
            line += letter;
        }
        if (line.empty() || !in) return;
        in.close();
        std::ranges::reverse(line);
        auto const begins = [&](std::string_view ours) { return line.starts_with(ours) || ours.starts_with(line); };
        bool const whole  = std::ranges::count(line, '{') == std::ranges::count(line, '}');
        if ((begins("{\"step\": ") || begins("{\"resumed_from\": ")) && !whole) {
            std::error_code failed;
            std::filesystem::resize_file(path_, static_cast<std::uintmax_t>(size) - line.size(), failed);
            if (!failed) return;
        }
        std::ofstream(path_, std::ios::binary | std::ios::app) << '\n';
    }

    std::filesystem::path path_;
    std::ofstream         out_;
};

}  // namespace lockstep::report
