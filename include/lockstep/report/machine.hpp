#pragma once
// The machine a run is on, as Linux tells it.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "lockstep/report/readable.hpp"
#include "lockstep/runtime/cores.hpp"

namespace lockstep::report {

struct Machine {
    std::string                  processor = "unknown processor";
    int                          cores     = 0;  // that this process may run on; 0: unknown
    std::optional<std::uint64_t> memory_bytes{};
};

/// Reads cpuinfo and meminfo below `proc`. What is not there stays unknown.
inline Machine this_machine(std::filesystem::path const& proc = "/proc") {
    Machine machine;
    machine.cores                = runtime::available_cores();
    auto const value_after_colon = [](std::string const& line) {
        std::size_t const colon = line.find(':');
        std::size_t const begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
        return begin == std::string::npos ? std::string{} : line.substr(begin);
    };
    std::ifstream cpuinfo(proc / "cpuinfo");
    for (std::string line; std::getline(cpuinfo, line);)
        if (line.starts_with("model name") && !value_after_colon(line).empty()) {
            machine.processor = value_after_colon(line);
            break;
        }
    std::ifstream meminfo(proc / "meminfo");
    for (std::string line; std::getline(meminfo, line);)
        if (line.starts_with("MemTotal:")) {
            std::istringstream value(value_after_colon(line));
            if (std::uint64_t kib = 0; value >> kib) machine.memory_bytes = kib * 1024;
            break;
        }
    return machine;
}

/// "Intel Xeon ..., 2 cores, 15.6 GiB".
inline std::string describe(Machine const& machine) {
    std::string text = machine.processor;
    if (machine.cores != 0) text += ", " + std::to_string(machine.cores) + (machine.cores == 1 ? " core" : " cores");
    if (machine.memory_bytes) text += ", " + readable_bytes(*machine.memory_bytes);
    return text;
}

}  // namespace lockstep::report
