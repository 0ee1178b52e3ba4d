// How programs of several ranks end. Compiled with LOCKSTEP_MPIEXEC and LOCKSTEP_PROGRAM, which endings_program.cpp is.

#include <cstddef>
#include <string>
#include <string_view>

#include "run_program.hpp"

namespace endings_test {

struct Run : EndedProgram {
    std::size_t count(std::string_view words) const {
        std::size_t found = 0;
        for (std::size_t at = output.find(words); at != std::string::npos; at = output.find(words, at + 1)) ++found;
        return found;
    }
};

Run run(std::string const& ending, int ranks = 3) {
    Run const result{run_program("timeout 30 " LOCKSTEP_MPIEXEC " -n " + std::to_string(ranks) + " " LOCKSTEP_PROGRAM " " + ending)};
    INFO(result.output);
    CHECK(result.code != 124);  // the time limit: it hung
    return result;
}

TEST_CASE("a program without errors exits with 0 and says nothing") {
    for (int ranks : {1, 3}) {
        Run const ended = run("well", ranks);
        CHECK(ended.code == 0);
        CHECK(ended.output.empty());
    }
}

TEST_CASE("an error that all ranks raise is printed once and exits in an orderly manner") {
    for (int ranks : {1, 3}) {
        Run const ended = run("alike", ranks);
        INFO(ended.output);
        CHECK(ended.code == 2);
        CHECK(ended.count("--batch: expected a multiple of 3, found 7\n") == 1);
        CHECK(ended.count("rank") == 0);
        CHECK(ended.count("MPI_Abort") == 0);
    }
}

TEST_CASE("different sentences of the ranks are all printed, with their ranks") {
    Run const ended = run("apart");
    INFO(ended.output);
    CHECK(ended.code == 2);
    for (char const* line : {"rank 0: shard 0 is missing\n", "rank 1: shard 1 is missing\n", "rank 2: shard 2 is missing\n"})
        CHECK(ended.count(line) == 1);
}

TEST_CASE("an error of one rank brings the job down while the others wait for it") {
    for (char const* ending : {"one", "in_flight"}) {
        Run const ended = run(ending);
        INFO(ended.output);
        CHECK(ended.code == 4);
        CHECK(ended.count("rank 1: the loss of this rank is not finite\n") == 1);
        CHECK(ended.count("MPI_Abort") == 0);  // MPI has nothing to add
    }
}

TEST_CASE("an error of one rank is the exit code of all where the others came to the end") {
    Run const ended = run("one_at_the_end");
    INFO(ended.output);
    CHECK(ended.code == 4);
    CHECK(ended.count("rank 1: the loss of this rank is not finite\n") == 1);
    CHECK(ended.count("MPI_Abort") == 0);
    CHECK(run("code").code == 4);
}

TEST_CASE("an exception of another library is an error too") {
    Run const ended = run("bad_alloc");
    INFO(ended.output);
    CHECK(ended.code == 3);
    CHECK(ended.count("no room\n") == 1);
}

TEST_CASE("an exception that unwinds the environment of one rank does not leave the others waiting") {
    Run const ended = run("unwinding");
    INFO(ended.output);
    CHECK(ended.code == 3);
    CHECK(ended.count("rank 1: an exception leaves the program") == 1);
}

TEST_CASE("an exception that unwinds the environments of all ranks reaches the handlers of the program") {
    Run const ended = run("unwinding_alike");
    INFO(ended.output);
    CHECK(ended.code == 2);
    CHECK(ended.count("caught: a sentence for the handler of the program\n") == 3);
    CHECK(ended.count("MPI_Abort") == 0);
}

TEST_CASE("a rank that ends well while others wait for it brings the job down") {
    for (char const* ending : {"left", "left_in_groups"})
        for (int ranks : {2, 3}) {
            Run const ended = run(ending, ranks);
            INFO(ended.output);
            CHECK(ended.code == 3);
            CHECK(ended.count("\n") == 1);
            CHECK(ended.count(ranks == 2 ? "rank 0: rank 1 ended the program while rank 0 waits for it\n"
                                         : "rank 0: rank 1 ended the program while others wait for it\n") == 1);
        }
}

TEST_CASE("a rank that comes to its end late is waited for") {
    for (int ranks : {2, 3}) {
        Run const ended = run("late", ranks);
        CHECK(ended.code == 0);
        CHECK(ended.output.empty());
    }
}

TEST_CASE("memory that cannot be had is named with the rank and its use, in one line") {
    for (int ranks : {1, 3}) {
        Run const ended = run("no_memory", ranks);
        INFO(ended.output);
        CHECK(ended.code == 3);
        CHECK(ended.count("\n") == 1);
        CHECK(ended.count(
                  "rank 0: memory ran out: expected 1152921504606846976 bytes more for optimizer, beside 0 bytes that are held\n") == 1);
    }
}

TEST_CASE("an error is one line of text whatever names are in it") {
    Run const ended = run("strange", 2);
    CHECK(ended.output == "name\\xc2\\x9b\\xe2\\x80\\xae\\x0a\\xff, \xC3\xA4\n");
}

}  // namespace endings_test
