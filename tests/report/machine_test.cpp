#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "lockstep/report/machine.hpp"

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

TEST_CASE("a machine is described by what is known of it") {
    CHECK(describe({"CPU", 2, std::uint64_t{16} << 30}) == "CPU, 2 cores, 16.0 GiB");
    CHECK(describe({"CPU", 1, {}}) == "CPU, 1 core");
    CHECK(describe({"CPU", 0, {}}) == "CPU");
}
