#pragma once
// Runs train_gpt as its users do: mpiexec and a process a rank. Compiled with LOCKSTEP_MPIEXEC, LOCKSTEP_TRAIN_GPT and
// LOCKSTEP_WORK_FOLDER.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace lockstep::test {

/// A folder below the build folder that goes again with its contents.
class Folder {
public:
    Folder() {
        std::filesystem::create_directories(LOCKSTEP_WORK_FOLDER);
        std::string pattern = LOCKSTEP_WORK_FOLDER "/run_XXXXXX";
        REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        path_ = pattern;
    }
    Folder(Folder const&)            = delete;
    Folder& operator=(Folder const&) = delete;
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    std::string operator/(std::string_view name) const { return (path_ / name).string(); }
    std::string write(std::string_view name, std::string_view bytes) const {
        std::ofstream(path_ / name, std::ios::binary) << bytes;
        return *this / name;
    }

private:
    std::filesystem::path path_;
};

inline std::string read_all(std::filesystem::path const& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

using Words = std::vector<std::string>;

inline Words operator+(Words all, Words const& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

inline std::string joined(Words const& words) {
    std::string text;
    for (std::string const& word : words) text += (text.empty() ? "" : " ") + (word.empty() ? "''" : word);
    return text;
}

/// How a run ended. A run that was cut off because it took too long has the code -1.
struct Ended {
    int         code = -1;
    std::string out, err;
    double      seconds = 0;
};

/// A command, its standard input empty.
inline Ended run_command(Words words, double limit_seconds = 120) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);

    std::FILE* const files[]{std::tmpfile(), std::tmpfile()};
    REQUIRE(files[0] != nullptr);
    REQUIRE(files[1] != nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t          attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fileno(files[0]), 1);
    posix_spawn_file_actions_adddup2(&actions, fileno(files[1]), 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // so that the whole job can be ended

    auto const begin   = std::chrono::steady_clock::now();
    auto const seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
    pid_t      process = 0;
    REQUIRE(posix_spawnp(&process, arguments[0], &actions, &attributes, arguments.data(), environ) == 0);
    Ended ended;
    int   status = 0;
    while (::waitpid(process, &status, WNOHANG) == 0) {
        if (seconds() > limit_seconds) {
            ::kill(-process, SIGKILL);
            ::waitpid(process, nullptr, 0);
            status = -1;
            break;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ended.seconds = seconds();
    ended.code    = status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    for (int i = 0; i < 2; ++i) {
        std::rewind(files[i]);
        std::string& text = i == 0 ? ended.out : ended.err;
        for (int c = std::fgetc(files[i]); c != EOF; c = std::fgetc(files[i])) text += static_cast<char>(c);
        std::fclose(files[i]);
    }
    return ended;
}

inline Ended run(int ranks, Words const& flags, double limit_seconds = 120) {
    return run_command(Words{LOCKSTEP_MPIEXEC, "-n", std::to_string(ranks), LOCKSTEP_TRAIN_GPT} + flags, limit_seconds);
}

/// Two ranks with flags of their own.
inline Ended run_apart(Words const& first, Words const& second, double limit_seconds = 60) {
    Words const program{"-n", "1", LOCKSTEP_TRAIN_GPT};
    return run_command(Words{LOCKSTEP_MPIEXEC} + program + first + Words{":"} + program + second, limit_seconds);
}

/// A run that must end well and say nothing on standard error.
inline Ended run_well(int ranks, Words const& flags) {
    Ended ended = run(ranks, flags);
    INFO(ranks, " ranks: ", joined(flags));
    INFO(ended.err);
    REQUIRE(ended.code == 0);
    CHECK(ended.err.empty());
    return ended;
}

using Lines = std::vector<nlohmann::ordered_json>;

/// The objects of a JSONL file.
inline Lines read_lines(std::filesystem::path const& path) {
    std::ifstream file(path);
    Lines         lines;
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::ordered_json::parse(line));
    return lines;
}

/// The metrics of a run that must end well.
inline Lines metrics(Folder const& folder, int ranks, Words const& flags) {
    run_well(ranks, flags + Words{"--metrics", folder / "metrics.jsonl"});
    return read_lines(folder / "metrics.jsonl");
}

/// One number of each line.
inline std::vector<double> column(Lines const& lines, char const* key) {
    std::vector<double> values;
    for (auto const& line : lines) values.push_back(line.at(key).get<double>());
    return values;
}

inline double relative_difference(double a, double b) { return std::abs(a - b) / std::max({std::abs(a), std::abs(b), 1e-300}); }

inline std::size_t count(std::string_view text, std::string_view part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++found;
    return found;
}

/// Ids below `vocabulary` in no simple order.
inline std::vector<std::int32_t> some_tokens(std::size_t size, std::uint32_t vocabulary, std::uint32_t seed = 1) {
    std::vector<std::int32_t> ids(size);
    std::uint32_t             x = seed;
    for (std::int32_t& id : ids) {
        x  = x * 1664525u + 1013904223u;
        id = static_cast<std::int32_t>((x >> 16) * (x >> 24) % vocabulary);
    }
    return ids;
}

/// The bytes of an llm.c shard of 2-byte ids.
inline std::string shard(std::vector<std::int32_t> const& ids) {
    std::string bytes(1024, '\0');
    auto const  put = [&](std::size_t at, std::uint32_t value) {
        for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(value >> 8 * i & 255u);
    };
    put(0, 20240520);
    put(4, 1);
    put(8, static_cast<std::uint32_t>(ids.size()));
    for (std::int32_t const id : ids) (bytes += static_cast<char>(id & 255)) += static_cast<char>(id >> 8);
    return bytes;
}

}  // namespace lockstep::test
