#pragma once
// A program of several ranks as its users start it: how it ended, and what it said on both streams.

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>

#include <sys/wait.h>

struct EndedProgram {
    int         code = -1;
    std::string output;
    double      seconds = 0;
};

/// What the shell makes of the command.
inline EndedProgram run_program(std::string const& command) {
    auto const       begin = std::chrono::steady_clock::now();
    EndedProgram     result;
    std::FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::array<char, 4096> chunk;
    while (std::size_t const size = std::fread(chunk.data(), 1, chunk.size(), pipe)) result.output.append(chunk.data(), size);
    result.code    = WEXITSTATUS(pclose(pipe));
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
}
