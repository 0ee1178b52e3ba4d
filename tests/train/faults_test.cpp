// One of three ranks fails in the middle of a step: the others end in time and say who, where and in which collective. Compiled with
// LOCKSTEP_MPIEXEC and LOCKSTEP_PROGRAM, which faults_program.cpp is.

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <regex>
#include <string>
#include <system_error>
#include <thread>

#include "../comm/run_program.hpp"

namespace faults_test {

constexpr double timeout = 1;  // as in the program

struct Run : EndedProgram {
    bool says(std::string const& pattern) const { return std::regex_search(output, std::regex(pattern)); }
};

/// Processes of the program that still run.
std::size_t left_over() {
    std::size_t     count = 0;
    std::error_code failed;
    for (auto const& entry : std::filesystem::directory_iterator("/proc"))
        count += std::filesystem::read_symlink(entry.path() / "exe", failed) == LOCKSTEP_PROGRAM;
    return count;
}

Run run(std::string const& arguments) {
    Run const result{run_program("timeout 60 " LOCKSTEP_MPIEXEC " -n 3 " LOCKSTEP_PROGRAM " " + arguments)};
    for (int tries = 0; left_over() != 0 && tries < 100; ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    CHECK(left_over() == 0);
    return result;
}

void for_each_way(auto const& body) {
    for (std::string const way : {"replicated thread ", "sharded inside "}) {
        CAPTURE(way);
        body(way);
    }
}

TEST_CASE("without a fault the program ends well") {
    for_each_way([](std::string const& way) {
        Run const ended = run(way + "none");
        CAPTURE(ended.output);
        CHECK(ended.code == 0);
        CHECK(ended.output.empty());
    });
}

TEST_CASE("a rank that is stopped: the others report it in time, with the collective and the place where it was last") {
    for_each_way([](std::string const& way) {
        for (std::string const phase : {"forward", "backward"}) {
            Run const ended = run(way + "stop_" + phase);
            CAPTURE(ended.output);
            CHECK(ended.code == 3);
            CHECK(ended.seconds < timeout + 5);
            for (std::string const rank : {"0", "2"})
                CHECK(ended.says("(^|\n)rank " + rank + ": (waited 1 s for the (sum of counts|[A-Z][A-Za-z]+ of [a-z]+ [0-9]+ " +
                                 R"(\([0-9]+ bytes from this rank\)), operation [0-9]+ of this rank|rank [02] has given up waiting))"));
            CHECK(ended.says(R"(rank 1 (has not joined|is silent))"));
            CHECK(ended.says("\n    rank 1: "));
            if (way.find("thread") != std::string::npos) CHECK(ended.says("\n    rank 1: .*in " + phase + " of unit 2 for .*, version 2"));
        }
    });
}

TEST_CASE("a rank that is stopped while it waits for a collective") {
    for_each_way([](std::string const& way) {
        Run const ended = run(way + "stop_wait");
        CAPTURE(ended.output);
        CHECK(ended.code == 3);
        CHECK(ended.seconds < timeout + 5);
        CHECK(ended.says("rank [02]: waited 1 s for the "));
        CHECK(ended.says("\n    rank 1: .*version [012]"));
    });
}

TEST_CASE("a rank that is killed: the launcher ends the others at once") {
    for (std::string const place : {"forward", "backward", "wait"}) {
        Run const ended = run("replicated thread kill_" + place);
        CAPTURE(ended.output);
        CHECK(ended.code != 0);
        CHECK(ended.seconds < 5);
    }
}

TEST_CASE("a rank that throws: its sentence, once, and the end of all") {
    for_each_way([](std::string const& way) {
        for (char const* phase : {"forward", "backward"}) {
            Run const ended = run(way + "throw_" + phase);
            CAPTURE(ended.output);
            CHECK(ended.code == 3);
            CHECK(ended.output == "rank 1: a kernel of rank 1 gave up\n");
            CHECK(ended.seconds < 8);
        }
    });
}

TEST_CASE("a rank that leaves out a step, or calls something else in its place") {
    for_each_way([](std::string const& way) {
        for (char const* fault : {"skip", "other"}) {
            Run const ended = run(way + fault);
            CAPTURE(ended.output);
            CHECK(ended.code == 3);
            CHECK(ended.seconds < timeout + 5);
            CHECK(ended.says("rank [012]: .*rank 1"));
            CHECK_FALSE(ended.says("rank 1: waited 1 s for all_gather of .* which all ranks have joined"));
        }
    });
}

TEST_CASE("a rank that steps two trainers in another order") {
    for_each_way([](std::string const& way) {
        Run const ended = run(way + "twin");
        CAPTURE(ended.output);
        CHECK(ended.code == 3);
        CHECK(ended.seconds < timeout + 5);
        CHECK(ended.says("\n    rank 1: .*was last at another engine, with operation [0-9]+, the "));
        CHECK_FALSE(ended.says("\n    rank 1: heard .*has (not )?joined it"));
    });
}

TEST_CASE("a rank that brings another size") {
    for_each_way([](std::string const& way) {
        Run const ended = run(way + "size");
        CAPTURE(ended.output);
        CHECK(ended.code == 3);
        CHECK(ended.seconds < timeout + 5);
        CHECK(ended.says("rank [012]: .*(bytes|truncated)"));
    });
}

TEST_CASE("a rank that leaves out a collective that no engine carries") {
    for_each_way([](std::string const& way) {
        Run const ended = run(way + "apart");
        CAPTURE(ended.output);
        CHECK(ended.code == 3);
        CHECK(ended.seconds < timeout + 5);
        CHECK(ended.says("rank [02]: waited 1 s for all_gather of 24 bytes, agreement ([0-9]+) of this rank, which rank 1 has not joined"));
        CHECK(ended.says("\n    rank 1: .*has not joined it, its last one is agreement [0-9]+; " +
                         std::string(way.find("thread") != way.npos ? "between two steps, version 2" : "")));
        CHECK(ended.says("\n    rank [02]: heard .* ago: has joined it; "));
    });
}

}  // namespace faults_test
