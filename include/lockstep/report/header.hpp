#pragma once
// The first lines of a run: what runs where, and how much memory it takes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/escape.hpp"
#include "lockstep/report/machine.hpp"
#include "lockstep/report/metrics.hpp"
#include "lockstep/report/readable.hpp"

namespace lockstep::report {

struct RunHeader {
    Machine                                          machine{};
    std::string                                      isa{};
    int                                              threads = 1;  // of a rank
    int                                              ranks   = 1;
    std::vector<std::pair<std::string, std::string>> settings{};        // name and value, a line each: model, precision, strategy, data
    std::uint64_t                                    parameters = 0;    // of the whole model
    BytesByCategory                                  bytes{};           // of a rank
    std::optional<std::uint64_t>                     predicted_peak{};  // bytes of a rank
};

/// The header as lines of at most `width` columns, where their words allow it.
inline std::string header_lines(RunHeader const& run, std::size_t width) {
    constexpr std::size_t margin = 14;
    std::string           lines  = "lockstep " LOCKSTEP_VERSION "\n";
    auto const            line   = [&](std::string_view name, std::string_view value) {
        std::string start = "  " + std::string(name);
        start.resize(start.size() + 1 < margin ? margin : start.size() + 1, ' ');
        ((lines += start) += value) += '\n';
    };
    auto const counted = [](int count, std::string_view what) {
        return std::to_string(count) + ' ' + std::string(what) + (count == 1 ? "" : "s");
    };
    line("machine", escaped(describe(run.machine)));
    line("runs as", counted(run.ranks, "rank") + " with " + counted(run.threads, "thread") + (run.ranks == 1 ? "" : " each") + ", " +
                        run.isa + " kernels");
    for (auto const& [name, value] : run.settings) line(name, escaped(value));
    line("parameters", readable_count(static_cast<double>(run.parameters)));

    std::string   memory;
    std::uint64_t sum    = 0;
    std::size_t   column = margin;
    for (std::size_t i = 0; i < observe::categories; ++i) {
        if (!run.bytes[i] || *run.bytes[i] == 0) continue;
        sum += *run.bytes[i];
        std::string const entry = std::string(observe::name(static_cast<observe::Category>(i))) + ' ' + readable_bytes(*run.bytes[i]);
        if (!memory.empty() && column + 2 + entry.size() > width) {
            (memory += ",\n") += std::string(margin, ' ');
            column = margin;
        } else if (!memory.empty()) {
            memory += ", ";
            column += 2;
        }
        memory += entry;
        column += entry.size();
    }
    if (!memory.empty()) {
        line("memory", readable_bytes(sum) + (run.ranks == 1 ? ", of this:" : " a rank, of this:"));
        line("", memory);
    }
    if (run.predicted_peak) line("peak", readable_bytes(*run.predicted_peak) + (run.ranks == 1 ? " predicted" : " a rank predicted"));
    return lines;
}

}  // namespace lockstep::report
