#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/report/machine.hpp"

namespace machine_test {

using namespace lockstep::report;

TEST_CASE("processor and memory are read where the system tells them, and stay unknown elsewhere") {
    auto const proc = std::filesystem::temp_directory_path() / ("lockstep_machine_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(proc);
    Machine machine = this_machine(proc);
    CHECK(machine.processor == "unknown processor");
    CHECK(!machine.memory_bytes);

    std::ofstream(proc / "cpuinfo") << "processor\t: 0\nvendor_id\t: X\nmodel name\t: Some CPU @ 2.0GHz\nmodel name\t: Other\n";
    std::ofstream(proc / "meminfo") << "MemTotal:       16384256 kB\nMemFree: 1 kB\n";
    machine = this_machine(proc);
    CHECK(machine.processor == "Some CPU @ 2.0GHz");
    CHECK(machine.memory_bytes == std::uint64_t{16384256} * 1024);

    std::ofstream(proc / "cpuinfo") << "model name\nmodel name\t:\n";
    std::ofstream(proc / "meminfo") << "MemTotal: plenty\n";
    machine = this_machine(proc);
    CHECK(machine.processor == "unknown processor");
    CHECK(!machine.memory_bytes);
    std::filesystem::remove_all(proc);
}

TEST_CASE("limits of memory are those of the machine, of all control groups above, and of the address space") {
    auto const root = std::filesystem::temp_directory_path() / ("lockstep_limits_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(root / "proc/self");
    std::filesystem::create_directories(root / "cgroup/a/b");
    std::filesystem::create_directories(root / "cgroup/memory/c");
    std::ofstream(root / "proc/meminfo") << "MemTotal: 8 kB\n";
    auto const found = [&] {
        std::vector<std::pair<std::uint64_t, std::string>> limits;
        for (MemoryLimit const& limit : memory_limits(root / "proc", root / "cgroup"))
            if (!limit.of_a_process) limits.emplace_back(limit.bytes, limit.what);
        return limits;
    };
    using Limits = std::vector<std::pair<std::uint64_t, std::string>>;
    CHECK(found() == Limits{{8192, "this machine"}});
    std::ofstream(root / "proc/self/cgroup") << "0::/a/b\n";
    std::ofstream(root / "cgroup/a/b/memory.max") << "max\n";
    std::ofstream(root / "cgroup/a/memory.max") << "4096\n";
    CHECK(found() == Limits{{8192, "this machine"}, {4096, "its control group /a"}});
    std::ofstream(root / "proc/self/cgroup") << "7:cpu,cpuacct:/a/b\n5:memory:/c\n";
    std::ofstream(root / "cgroup/memory/c/memory.limit_in_bytes") << "512\n";
    CHECK(found() == Limits{{8192, "this machine"}, {512, "its control group /c"}});

#if !defined(__SANITIZE_ADDRESS__)  // which needs terabytes of addresses
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
    rlimit now   = before;
    now.rlim_cur = rlim_t{1} << 40;
    std::ofstream(root / "proc/self/statm") << "256 1 1\n";
    REQUIRE(::setrlimit(RLIMIT_AS, &now) == 0);
    MemoryLimit const last = memory_limits(root / "proc", root / "cgroup").back();
    ::setrlimit(RLIMIT_AS, &before);
    CHECK(last.of_a_process);
    CHECK(last.bytes == (std::uint64_t{1} << 40) - 256 * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
#endif
    std::filesystem::remove_all(root);
}

TEST_CASE("a machine is described by what is known of it") {
    CHECK(describe({"CPU", 2, std::uint64_t{16} << 30}) == "CPU, 2 cores, 16.0 GiB");
    CHECK(describe({"CPU", 1, {}}) == "CPU, 1 core");
    CHECK(describe({"CPU", 0, {}}) == "CPU");
}

}  // namespace machine_test
