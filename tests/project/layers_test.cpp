// Reads the include graph of the headers and holds it against the rooms of the design: each header includes its own room or lower rows,
// each third-party library has one door.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace layers_test {

/// Rows of rooms, lowest first. Rooms of one row do not know each other.
std::vector<std::vector<std::string>> const rows{
    {"core"},
    {"precision", "observe"},
    {"tensor", "runtime", "comm", "state"},
    {"kernel"},
    {"data", "nn", "optim", "parallel", "io", "report", "plan"},
    {"train"},
};

/// These rooms may include the contracts of their siblings.
std::set<std::string> const reads_siblings{"io", "report", "plan"};
std::set<std::string> const contracts{"data/batch.hpp", "nn/module.hpp", "nn/model.hpp", "optim/optimizer.hpp", "parallel/strategy.hpp"};

/// Third-party headers, by how their names begin, and the rooms that may include them.
std::map<std::string, std::set<std::string>> const doors{
    {"xtensor/", {"tensor"}},    {"xtensor-", {"tensor"}},   {"xtl/", {"tensor"}},   {"tbb/", {"runtime"}},
    {"oneapi/", {"runtime"}},    {"mpi", {"comm"}},          {"xsimd/", {"kernel"}}, {"immintrin.h", {"kernel"}},
    {"x86intrin.h", {"kernel"}}, {"arm_neon.h", {"kernel"}}, {"nlohmann/", {"io"}},  {"sanitizer/", {"tensor"}},
};

/// Headers of the system that any room may include.
std::vector<std::string> const of_the_system{"sys/", "unistd.h", "fcntl.h", "sched.h", "pthread.h", "signal.h"};

struct Header {
    std::string              path;   // relative to include/lockstep
    std::vector<std::string> own;    // includes in quotes, as written
    std::vector<std::string> other;  // includes in angle brackets
    std::size_t              lines = 0;
    bool                     once  = false;
};

std::string room_of(std::string const& path) {
    auto const slash = path.find('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
}

int row_of(std::string const& room) {
    for (std::size_t row = 0; row < rows.size(); ++row)
        if (std::ranges::find(rows[row], room) != rows[row].end()) return static_cast<int>(row);
    return -1;
}

/// Reads one header; `#include` counts wherever the preprocessor could see it, inside `#if` too.
Header parse(std::string const& path, std::istream& text) {
    Header header{path, {}, {}};
    for (std::string line; std::getline(text, line);) {
        ++header.lines;
        std::istringstream words(line);
        std::string        word;
        words >> word;
        if (word == "#") {
            std::string directive;
            words >> directive;
            word += directive;
        }
        if (line.starts_with("#pragma once")) header.once = true;
        if (!word.starts_with("#include")) continue;
        auto const open = line.find_first_of("<\"");
        if (open == std::string::npos) continue;
        auto const close = line.find_first_of(">\"", open + 1);
        (line[open] == '<' ? header.other : header.own).push_back(line.substr(open + 1, close - open - 1));
    }
    return header;
}

std::vector<Header> read_tree(std::filesystem::path const& root) {
    std::vector<Header> headers;
    for (auto const& entry : std::filesystem::recursive_directory_iterator(root)) {
        if (!entry.is_regular_file()) continue;
        std::ifstream text(entry.path());
        headers.push_back(parse(entry.path().lexically_relative(root).generic_string(), text));
    }
    return headers;
}

bool allowed(std::string const& from, std::string const& to) {
    if (room_of(from).empty()) return true;  // the umbrella
    std::string const a = room_of(from);
    std::string const b = room_of(to);
    if (a == b || row_of(b) < row_of(a)) return !b.empty();
    return row_of(a) == row_of(b) && reads_siblings.contains(a) && contracts.contains(to);
}

/// The rooms that may include a header in angle brackets; empty and `known` for those of any room.
std::string angle_fault(std::string const& room, std::string const& name) {
    for (auto const& [prefix, rooms] : doors)
        if (name.starts_with(prefix)) return rooms.contains(room) ? "" : "the door of <" + name + "> is " + *rooms.begin() + "/";
    bool const standard = name.find_first_of("./") == std::string::npos;
    bool const system   = std::ranges::any_of(of_the_system, [&](std::string const& prefix) { return name.starts_with(prefix); });
    return standard || system ? "" : "<" + name + "> has no door";
}

/// A header that includes itself over others, or nothing.
std::string cycle(std::map<std::string, std::vector<std::string>> const& edges) {
    std::map<std::string, int>              seen;  // 1 on the path, 2 done
    std::function<bool(std::string const&)> visit = [&](std::string const& node) {
        if (seen[node] != 0) return seen[node] == 1;
        seen[node] = 1;
        if (auto const found = edges.find(node); found != edges.end())
            for (std::string const& next : found->second)
                if (visit(next)) return true;
        seen[node] = 2;
        return false;
    };
    for (auto const& [node, unused] : edges)
        if (visit(node)) return node;
    return "";
}

/// One sentence for each fault of the graph.
std::vector<std::string> faults(std::vector<Header> const& headers) {
    std::vector<std::string>                        found;
    std::set<std::string>                           paths;
    std::map<std::string, std::vector<std::string>> edges;
    for (Header const& header : headers) paths.insert(header.path);
    for (Header const& header : headers) {
        auto const        fault = [&](std::string const& sentence) { found.push_back(header.path + ": " + sentence); };
        std::string const room  = room_of(header.path);
        if (!header.path.ends_with(".hpp")) fault("is not a header called .hpp");
        if (!header.once) fault("has no #pragma once");
        if (header.lines > 400) fault("has " + std::to_string(header.lines) + " lines, more than 400");
        if (header.path != "lockstep.hpp" && row_of(room) < 0) fault("lies in no room of the design");
        for (std::string const& name : header.other) {
            if (std::string const sentence = angle_fault(room, name); !sentence.empty()) fault(sentence);
        }
        for (std::string const& name : header.own) {
            std::string const to = name.starts_with("lockstep/") ? name.substr(9) : name;
            if (!name.starts_with("lockstep/") || !paths.contains(to))
                fault("includes \"" + name + "\", which is not lockstep/<room>/<header>");
            else if (!allowed(header.path, to))
                fault("must not include " + to);
            edges[header.path].push_back(to);
        }
        for (std::string_view word : {"util", "helper", "common", "manager", "fast"})
            if (header.path.find(word) != std::string::npos) fault("is called " + std::string(word));
    }
    if (std::string const node = cycle(edges); !node.empty()) found.push_back(node + ": includes itself");
    return found;
}

Header header(std::string const& path, std::string const& text) {
    std::istringstream stream("#pragma once\n" + text);
    return parse(path, stream);
}

/// The only fault of a graph of some sound headers and these.
std::string only_fault(std::vector<Header> headers) {
    for (char const* sound : {"core/error.hpp", "observe/ledger.hpp", "tensor/view.hpp", "state/unit.hpp", "kernel/gemm.hpp",
                              "nn/module.hpp", "nn/linear.hpp", "optim/sgd.hpp", "train/trainer.hpp"})
        headers.push_back(header(sound, ""));
    auto const found = faults(headers);
    return found.size() == 1 ? found.front() : std::to_string(found.size()) + " faults";
}

TEST_CASE("the headers respect the rooms, the doors and the sizes of the design") {
    auto const headers = read_tree(LOCKSTEP_HEADERS);
    REQUIRE(headers.size() > 15);
    for (std::string const& fault : faults(headers)) FAIL_CHECK(fault);

    std::vector<std::size_t> lines;
    for (Header const& each : headers) lines.push_back(each.lines);
    std::ranges::sort(lines);
    CHECK(lines[lines.size() / 2] < 100);
}

TEST_CASE("the umbrella includes every header, sorted") {
    auto const               headers = read_tree(LOCKSTEP_HEADERS);
    std::vector<std::string> all;
    std::vector<std::string> included;
    for (Header const& each : headers) {
        if (each.path != "lockstep.hpp")
            all.push_back("lockstep/" + each.path);
        else
            included = each.own;
    }
    std::ranges::sort(all);
    CHECK(included == all);
}

TEST_CASE("edges down and inside a room are allowed") {
    CHECK(only_fault({header("kernel/a.hpp", "#include <xsimd/xsimd.hpp>\n#include <vector>\n#include \"lockstep/tensor/view.hpp\"\n")}) ==
          "0 faults");
    CHECK(only_fault({header("tensor/a.hpp", "#include <sys/mman.h>\n#include \"lockstep/observe/ledger.hpp\"\n")}) == "0 faults");
    CHECK(only_fault({header("nn/a.hpp", "#include \"lockstep/nn/module.hpp\"\n")}) == "0 faults");
    CHECK(only_fault({header("io/a.hpp", "#include <nlohmann/json.hpp>\n#include \"lockstep/nn/module.hpp\"\n")}) == "0 faults");
}

TEST_CASE("every kind of wrong edge is found") {
    CHECK(only_fault({header("core/a.hpp", "#include \"lockstep/kernel/gemm.hpp\"\n")}) == "core/a.hpp: must not include kernel/gemm.hpp");
    CHECK(only_fault({header("tensor/a.hpp", "#include \"lockstep/state/unit.hpp\"\n")}) ==
          "tensor/a.hpp: must not include state/unit.hpp");
    CHECK(only_fault({header("optim/a.hpp", "#if 1\n#  include \"lockstep/nn/module.hpp\"\n#endif\n")}) ==
          "optim/a.hpp: must not include nn/module.hpp");
    CHECK(only_fault({header("io/a.hpp", "#include \"lockstep/nn/linear.hpp\"\n")}) == "io/a.hpp: must not include nn/linear.hpp");
    CHECK(only_fault({header("plan/a.hpp", "#include \"lockstep/train/trainer.hpp\"\n")}) ==
          "plan/a.hpp: must not include train/trainer.hpp");
    CHECK(only_fault({header("nn/a.hpp", "#include \"module.hpp\"\n")}) ==
          "nn/a.hpp: includes \"module.hpp\", which is not lockstep/<room>/<header>");
    CHECK(only_fault({header("lockstep.hpp", ""), header("train/a.hpp", "#include \"lockstep/lockstep.hpp\"\n")}) ==
          "train/a.hpp: must not include lockstep.hpp");
    CHECK(only_fault({header("nn/a.hpp", "#include \"lockstep/nn/b.hpp\"\n"), header("nn/b.hpp", "#include \"lockstep/nn/a.hpp\"\n")}) ==
          "nn/a.hpp: includes itself");
}

TEST_CASE("every third-party header outside of its door is found") {
    auto const fault = [](char const* path, std::string const& name) { return only_fault({header(path, "#include <" + name + ">\n")}); };
    CHECK(fault("nn/a.hpp", "xtensor/xtensor.hpp") == "nn/a.hpp: the door of <xtensor/xtensor.hpp> is tensor/");
    CHECK(fault("kernel/a.hpp", "oneapi/tbb/parallel_for.h") == "kernel/a.hpp: the door of <oneapi/tbb/parallel_for.h> is runtime/");
    CHECK(fault("kernel/a.hpp", "tbb/tbb.h") == "kernel/a.hpp: the door of <tbb/tbb.h> is runtime/");
    CHECK(fault("parallel/a.hpp", "mpi.h") == "parallel/a.hpp: the door of <mpi.h> is comm/");
    CHECK(fault("tensor/a.hpp", "xsimd/xsimd.hpp") == "tensor/a.hpp: the door of <xsimd/xsimd.hpp> is kernel/");
    CHECK(fault("precision/a.hpp", "immintrin.h") == "precision/a.hpp: the door of <immintrin.h> is kernel/");
    CHECK(fault("core/a.hpp", "nlohmann/json.hpp") == "core/a.hpp: the door of <nlohmann/json.hpp> is io/");
    CHECK(fault("report/a.hpp", "nlohmann/json.hpp") == "report/a.hpp: the door of <nlohmann/json.hpp> is io/");
    CHECK(fault("io/a.hpp", "CLI/CLI.hpp") == "io/a.hpp: <CLI/CLI.hpp> has no door");
    CHECK(fault("io/a.hpp", "benchmark/benchmark.h") == "io/a.hpp: <benchmark/benchmark.h> has no door");
}

TEST_CASE("a header that is too long, lies outside of the rooms or is not guarded is found") {
    CHECK(only_fault({header("nn/a.hpp", std::string(400, '\n'))}) == "nn/a.hpp: has 401 lines, more than 400");
    CHECK(only_fault({header("misc/a.hpp", "")}) == "misc/a.hpp: lies in no room of the design");
    CHECK(only_fault({header("trainer.hpp", "")}) == "trainer.hpp: lies in no room of the design");
    CHECK(only_fault({header("nn/a.cpp", "")}) == "nn/a.cpp: is not a header called .hpp");
    CHECK(only_fault({header("nn/string_utils.hpp", "")}) == "nn/string_utils.hpp: is called util");
    std::istringstream unguarded("#include <vector>\n");
    CHECK(only_fault({parse("nn/a.hpp", unguarded)}) == "nn/a.hpp: has no #pragma once");
}

}  // namespace layers_test
