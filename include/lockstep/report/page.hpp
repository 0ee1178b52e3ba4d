#pragma once
// The report of a run: one HTML page that needs nothing but itself.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/report/collective_table.hpp"
#include "lockstep/report/json.hpp"
#include "lockstep/report/metrics.hpp"
#include "lockstep/report/page_charts.hpp"
#include "lockstep/report/page_style.hpp"
#include "lockstep/report/page_tables.hpp"
#include "lockstep/report/page_timeline.hpp"

namespace lockstep::report {

struct Page {
    std::string                                      title    = "lockstep run";
    std::string                                      subtitle = {};
    std::vector<std::pair<std::string, std::string>> about    = {};  // name and value
    std::string                                      slow     = {};  // a sentence about the rank that came last
    std::size_t                                      ranks    = 1;
    std::vector<StepMetrics>                         steps    = {};  // of rank 0
    Recording                                        recording{};
};

namespace detail {

/// Text of an element: nothing in it is markup.
inline std::string html_escaped(std::string_view text) {
    std::string safe;
    for (char const c : text) switch (c) {
            case '&':
                safe += "&amp;";
                break;
            case '<':
                safe += "&lt;";
                break;
            case '>':
                safe += "&gt;";
                break;
            case '"':
                safe += "&quot;";
                break;
            default:
                safe += c;
        }
    return safe;
}

/// JSON that may stand in a script element: no "<" ends it or opens a comment.
inline std::string script_safe(std::string json) {
    std::string safe;
    safe.reserve(json.size());
    for (char const c : json)
        if (c == '<')
            safe += "\\u003c";
        else
            safe += c;
    return safe;
}

/// An array of what `write(entry)` says is JSON already.
template <class Entries, class Write>
std::string json_array(Entries const& entries, Write const& write) {
    std::string text{'['};
    for (auto const& entry : entries) {
        if (text.size() > 1) text += ',';
        text += write(entry);
    }
    return text += ']';
}

template <class Number>
std::string json_number(std::optional<Number> const& value) {
    std::string const object = JsonWriter{}.add("", value).text();  // {"": 1}
    return object.substr(5, object.size() - 6);
}

inline std::string metrics_json(std::vector<StepMetrics> const& steps) {
    JsonWriter columns;
    auto const column = [&](std::string_view key, auto const& value) {
        columns.raw(key, json_array(steps, [&](StepMetrics const& m) { return json_number(value(m)); }));
    };
    column("step", [](StepMetrics const& m) { return std::optional(m.step); });
    using Column = std::pair<std::string_view, std::optional<double> StepMetrics::*>;
    for (auto const& [key, member] :
         {Column{"loss", &StepMetrics::loss}, Column{"val_loss", &StepMetrics::val_loss}, Column{"lr", &StepMetrics::lr},
          Column{"step_ms", &StepMetrics::step_ms}, Column{"compute_ms", &StepMetrics::compute_ms},
          Column{"parameters_ms", &StepMetrics::exposed_parameters_ms}, Column{"gradients_ms", &StepMetrics::exposed_gradients_ms},
          Column{"late_peer_ms", &StepMetrics::late_peer_ms}, Column{"update_ms", &StepMetrics::update_ms},
          Column{"data_ms", &StepMetrics::data_ms}, Column{"other_ms", &StepMetrics::other_ms}, Column{"comm_ms", &StepMetrics::comm_ms},
          Column{"hidden_ms", &StepMetrics::hidden_comm_ms}, Column{"tokens_per_s", &StepMetrics::tokens_per_s},
          Column{"mfu", &StepMetrics::mfu}})
        column(key, [m = member](StepMetrics const& step) { return step.*m; });
    column("mem_peak_bytes", [](StepMetrics const& m) { return m.mem_peak_bytes; });
    for (std::size_t c = 0; c < observe::categories; ++c) column("mem" + std::to_string(c), [c](StepMetrics const& m) { return m.mem[c]; });
    return columns.text();
}

/// Times count from `base`, so that a number of the script holds them exactly.
inline std::string ranks_json(Recording const& recording, observe::Nanoseconds base) {
    return json_array(recording.ranks, [&](Recording::Rank const& rank) {
        std::string const threads = json_array(rank.threads, [&](Recording::Thread const& thread) {
            std::string const records = json_array(thread.records, [&](observe::Record const& r) {
                std::string text{'['};
                for (std::int64_t const n : {static_cast<std::int64_t>(r.event), std::int64_t{r.part}, std::int64_t{r.index},
                                             r.begin - base, r.end - base, static_cast<std::int64_t>(r.bytes)})
                    (text += text.size() > 1 ? "," : "") += std::to_string(n);
                return text += ']';
            });
            return JsonWriter{}.add_text("name", thread.name).raw("records", records).text();
        });
        return JsonWriter{}
            .add("offset", rank.clock.offset)
            .add("error", rank.clock.error)
            .add("lost", rank.lost)
            .raw("threads", threads)
            .text();
    });
}

inline std::string collectives_json(Recording const& recording) {
    if (recording.ranks.empty()) return "[]";
    return json_array(collective_table(recording, 0), [](CollectiveRow const& row) {
        JsonWriter json;
        json.add_text("name", row.name).add("count", row.count).add("bytes", row.bytes).add("wire_ms", row.wire_ms);
        return json.add("exposed_ms", row.exposed_ms).add("late_ms", row.late_ms).add("hidden", row.hidden).text();
    });
}

inline std::string page_json(Page const& page) {
    auto const           quoted = [](auto const& text) { return json_quoted(text); };
    observe::Nanoseconds base   = std::numeric_limits<observe::Nanoseconds>::max();
    for (auto const& rank : page.recording.ranks)
        for (auto const& thread : rank.threads)
            for (auto const& r : thread.records) base = std::min(base, r.begin);

    std::vector<std::string> events, categories;
    for (std::size_t e = 0; e < observe::events; ++e) events.emplace_back(name(static_cast<observe::Event>(e)));
    for (std::size_t c = 0; c < observe::categories; ++c) categories.emplace_back(name(static_cast<observe::Category>(c)));
    std::string const about =
        json_array(page.about, [&](auto const& entry) { return '[' + json_quoted(entry.first) + ',' + json_quoted(entry.second) + ']'; });

    JsonWriter data;
    data.add_text("version", LOCKSTEP_VERSION).add_text("subtitle", page.subtitle).add_text("slow", page.slow).add("world", page.ranks);
    data.raw("about", about).raw("events", json_array(events, quoted)).raw("categories", json_array(categories, quoted));
    data.raw("units", json_array(page.recording.units, quoted)).raw("metrics", metrics_json(page.steps));
    data.add("gathered_among", page.recording.gathered_among);
    data.raw("collectives", collectives_json(page.recording)).raw("ranks", ranks_json(page.recording, base));
    return script_safe(data.text());
}

}  // namespace detail

inline std::string html(Page const& page) {
    std::string text = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
    text += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    text +=
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
        "'unsafe-inline'\">\n";
    text += "<title>" + detail::html_escaped(page.title) + "</title>\n<style>" + std::string(page_style) +
            "</style>\n</head>\n<body>\n<main>\n";
    text += "<header><h1>" + detail::html_escaped(page.title) + "</h1></header>\n<div class=\"tiles\" id=\"tiles\"></div>\n";
    text += "<noscript><p>The charts of this page are drawn by its script.</p></noscript>\n</main>\n<div id=\"tip\"></div>\n";
    text += "<script type=\"application/json\" id=\"data\">" + detail::page_json(page) + "</script>\n<script>";
    for (std::string_view const script : {page_charts, page_timeline, page_tables}) text += script;
    return text += "</script>\n</body>\n</html>\n";
}

}  // namespace lockstep::report
