// One table of all benchmark results of a build tree, ours beside theirs, and the same as a picture.
//   bench_table RESULTS.json... PICTURE.svg
// Reads Google Benchmark's JSON. A row has the rate (FLOP/s, bytes/s or tokens/s), what another program reached on the same shape in the
// same run, or one thread where the row is of two, the ratio of ours to theirs, and the share of the limit that was measured beside it.
// Rows named peak_memory have bytes: there a ratio below 1 is the better one.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Row {
    std::string           name, rate, theirs, other;  // other: the program that is compared with
    std::optional<double> ratio, share;
};

/// "1.23 TFLOP/s"
std::string readable(double value, char const* unit) {
    char const* const prefixes[]{"", "k", "M", "G", "T", "P"};
    std::size_t       p = 0;
    for (; value >= 1000 && p < 5; ++p) value /= 1000;
    char text[64];
    std::snprintf(text, sizeof text, "%.3g %s%s", value, prefixes[p], unit);
    return text;
}

std::optional<double> number(nlohmann::json const& entry, char const* key) {
    auto const found = entry.find(key);
    if (found == entry.end() || !found->is_number()) return {};
    return found->get<double>();
}

bool starts_with(std::string const& text, std::string const& begin) { return text.compare(0, begin.size(), begin) == 0; }

/// "step/shakespeare/B:64/T:256": without what Google Benchmark writes behind it.
std::string plain_name(nlohmann::json const& entry) {
    std::string name = entry.at("name");
    for (char const* suffix : {"/manual_time", "/real_time", "/iterations:"})
        if (std::size_t const at = name.find(suffix); at != std::string::npos) name.erase(at);
    return name;
}

/// What a whole step is compared with.
struct Other {
    std::string           program;  // "pytorch bf16", "one thread"
    double                tokens_per_s;
    std::optional<double> peak_bytes;
};

/// By the step's whole name, batch and sequence included: "step/gpt2-124m/B:4/T:1024" has several.
using Others = std::multimap<std::string, Other>;

void add_other(Others& others, nlohmann::json const& entry) {
    auto const tokens = number(entry, "tokens_per_s");
    if (!tokens) return;
    std::string const one_thread = "/threads:1", name = plain_name(entry);
    if (starts_with(name, "step/") && name.ends_with(one_thread)) {
        others.emplace(name.substr(0, name.size() - one_thread.size()) + "/threads:2", Other{"one thread", *tokens, {}});
        return;
    }
    std::size_t const program = name.find("/step/"), type = name.rfind('/');
    if (program == std::string::npos || program == 0) return;
    others.emplace(name.substr(program + 1, type - program - 1),
                   Other{name.substr(0, program) + " " + name.substr(type + 1), *tokens, number(entry, "peak_bytes")});
}

/// A whole step: its speed, alone and beside each other one, then its memory.
void add_step(std::vector<Row>& rows, std::string const& name, double tokens, nlohmann::json const& entry, Others const& others) {
    std::string const rate = readable(tokens, " tokens/s");
    rows.push_back({name, rate, "", "", {}, number(entry, "of_peak")});
    auto const [first, last] = others.equal_range(name);
    for (auto other = first; other != last; ++other)
        rows.push_back({name,
                        rate,
                        readable(other->second.tokens_per_s, " tokens/s"),
                        other->second.program,
                        tokens / other->second.tokens_per_s,
                        {}});
    auto const bytes = number(entry, "peak_bytes");
    if (!bytes || name.find("/threads:") != std::string::npos) return;
    std::string const memory = name + "/peak_memory", held = readable(*bytes, "B");
    std::size_t const before = rows.size();
    for (auto other = first; other != last; ++other)
        if (auto const theirs = other->second.peak_bytes)
            rows.push_back({memory, held, readable(*theirs, "B"), other->second.program, *bytes / *theirs, {}});
    if (rows.size() == before) rows.push_back({memory, held, "", "", {}, {}});
}

std::vector<Row> rows_of(std::vector<nlohmann::json> const& entries) {
    Others others;
    for (auto const& entry : entries) add_other(others, entry);
    std::vector<Row> rows;
    for (auto const& entry : entries) {
        std::string const name = plain_name(entry);
        if (auto const tokens = number(entry, "tokens_per_s"); tokens && starts_with(name, "step/")) {
            add_step(rows, name, *tokens, entry, others);
            continue;
        }
        Row row{.name = name, .rate = "", .theirs = "", .other = "", .ratio = number(entry, "ratio"), .share = number(entry, "of_peak")};
        for (auto const& [key, unit] : {std::pair("flop_per_s", "FLOP/s"), std::pair("bytes_per_s", "B/s")}) {
            if (auto const rate = number(entry, key)) row.rate = readable(*rate, unit);
            if (auto const rate = number(entry, (std::string("theirs_") + key).c_str()))
                row.theirs = readable(*rate, unit), row.other = name.substr(0, name.find('/'));
            if (auto const rate = number(entry, (std::string("one_thread_") + key).c_str()))
                row.theirs = readable(*rate, unit), row.other = "one thread";
        }
        if (!row.rate.empty()) rows.push_back(row);
    }
    return rows;
}

void print(std::vector<Row> const& rows) {
    std::size_t width = 9;
    for (Row const& row : rows) width = std::max(width, row.name.size());
    std::printf("\n%-*s  %14s  %14s  %-14s  %6s  %8s\n", static_cast<int>(width), "benchmark", "ours", "theirs", "", "ratio", "of limit");
    for (Row const& row : rows) {
        std::string const ratio = row.ratio ? readable(*row.ratio, "") : "", share = row.share ? readable(100 * *row.share, "%") : "";
        std::printf("%-*s  %14s  %14s  %-14s  %6s  %8s\n", static_cast<int>(width), row.name.c_str(), row.rate.c_str(), row.theirs.c_str(),
                    row.other.c_str(), ratio.c_str(), share.c_str());
    }
}

std::string escaped(std::string const& text) {
    std::string result;
    for (char const c : text) result += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
    return result;
}

/// Bars: the share of the limit, with the ratio to others written behind.
void draw(std::vector<Row> const& rows, std::ofstream& out) {
    std::vector<Row const*> shown;
    for (Row const& row : rows)
        if (row.share) shown.push_back(&row);
    std::size_t const line = 20, left = 420, full = 400, top = 40;
    out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << left + full + 420 << "\" height=\"" << top + line * shown.size() + 20
        << "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        << "<text x=\"10\" y=\"22\" font-size=\"15\">lockstep: share of the limit that was measured in the same run</text>\n";
    for (int tick = 0; tick <= 100; tick += 25) {
        std::size_t const x = left + full * static_cast<std::size_t>(tick) / 100;
        out << "<line x1=\"" << x << "\" y1=\"" << top - 6 << "\" x2=\"" << x << "\" y2=\"" << top + line * shown.size()
            << "\" stroke=\"#ddd\"/><text x=\"" << x << "\" y=\"" << top - 8 << "\" text-anchor=\"middle\" fill=\"#666\">" << tick
            << " %</text>\n";
    }
    for (std::size_t i = 0; i < shown.size(); ++i) {
        Row const&        row   = *shown[i];
        std::size_t const y     = top + i * line;
        auto const        width = static_cast<std::size_t>(std::clamp(*row.share, 0.0, 1.2) * static_cast<double>(full));
        out << "<text x=\"" << left - 8 << "\" y=\"" << y + 14 << "\" text-anchor=\"end\">" << escaped(row.name) << "</text><rect x=\""
            << left << "\" y=\"" << y + 3 << "\" width=\"" << width << "\" height=\"14\" fill=\"#4477aa\"/><text x=\"" << left + width + 6
            << "\" y=\"" << y + 14 << "\">" << escaped(readable(100 * *row.share, "%") + "  " + row.rate);
        for (Row const& compared : rows)
            if (compared.ratio && compared.name == row.name && (&compared == &row || !compared.share))
                out << escaped(", " + readable(*compared.ratio, "") + "x " + compared.other);
        out << "</text>\n";
    }
    out << "</svg>\n";
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fputs("usage: bench_table RESULTS.json... PICTURE.svg\n", stderr);
        return 2;
    }
    std::vector<nlohmann::json> entries;
    for (int i = 1; i + 1 < argc; ++i) {
        std::ifstream in(argv[i]);
        auto const    results = nlohmann::json::parse(in, nullptr, false);
        if (!results.is_object() || !results.contains("benchmarks")) {
            std::fprintf(stderr, "bench_table: %s: expected results of Google Benchmark in JSON\n", argv[i]);
            continue;
        }
        for (auto const& entry : results.at("benchmarks"))
            if (entry.value("run_type", "iteration") == "iteration") entries.push_back(entry);
    }
    auto const rows = rows_of(entries);
    print(rows);
    std::ofstream picture(argv[argc - 1]);
    draw(rows, picture);
    picture.close();
    if (!picture) {
        std::fprintf(stderr, "bench_table: %s: could not be written\n", argv[argc - 1]);
        return 1;
    }
    std::printf("\ndrawn in %s\n", argv[argc - 1]);
}
