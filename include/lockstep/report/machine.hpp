#pragma once
// The machine a run is on, as Linux tells it.

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

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

/// An upper bound of the memory that a run may take.
struct MemoryLimit {
    std::uint64_t bytes = 0;
    std::string   what{};                // "this machine"
    bool          of_a_process = false;  // else of all processes of the node together
};

namespace detail {

/// The number that a file holds and nothing else; empty where it holds a word.
inline std::optional<std::uint64_t> number_in(std::filesystem::path const& file) {
    std::ifstream in(file);
    if (std::uint64_t number = 0; in >> number) return number;
    return std::nullopt;
}

}  // namespace detail

/// What the machine has, what the control groups of this process allow (those above its own count too), and what is left of its address
/// space. What is not there stays out. `proc` and `cgroup` are where Linux keeps these.
inline std::vector<MemoryLimit> memory_limits(std::filesystem::path const& proc   = "/proc",
                                              std::filesystem::path const& cgroup = "/sys/fs/cgroup") {
    std::vector<MemoryLimit> limits;
    if (auto const memory = this_machine(proc).memory_bytes) limits.push_back({*memory, "this machine"});
    std::ifstream groups(proc / "self/cgroup");
    for (std::string line; std::getline(groups, line);) {  // "0::/a/b", or in version 1 "5:memory:/a/b"
        std::size_t const first = line.find(':'), second = first == line.npos ? first : line.find(':', first + 1);
        if (second == line.npos || second + 1 >= line.size()) continue;
        std::string const controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
        bool const        unified     = controllers == ",,";
        if (!unified && controllers.find(",memory,") == controllers.npos) continue;
        std::filesystem::path const root = unified ? cgroup : cgroup / "memory";
        for (std::filesystem::path group = std::filesystem::path(line.substr(second + 1)).relative_path();; group = group.parent_path()) {
            if (auto const bytes = detail::number_in(root / group / (unified ? "memory.max" : "memory.limit_in_bytes")))
                limits.push_back({*bytes, "its control group /" + group.generic_string()});
            if (group.empty()) break;
        }
    }
    ::rlimit space{};
    if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
        std::uint64_t const used = detail::number_in(proc / "self/statm").value_or(0) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
        limits.push_back({space.rlim_cur > used ? space.rlim_cur - used : 0, "address space that is left to a process (ulimit -v)", true});
    }
    return limits;
}

/// "Intel Xeon ..., 2 cores, 15.6 GiB".
inline std::string describe(Machine const& machine) {
    std::string text = machine.processor;
    if (machine.cores != 0) text += ", " + std::to_string(machine.cores) + (machine.cores == 1 ? " core" : " cores");
    if (machine.memory_bytes) text += ", " + readable_bytes(*machine.memory_bytes);
    return text;
}

}  // namespace lockstep::report
