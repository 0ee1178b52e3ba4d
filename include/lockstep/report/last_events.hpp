#pragma once
// What a rank did last, for whoever asks why a run ended: the rings of its timeline as a file of lines of JSON.

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/observe/timeline.hpp"
#include "lockstep/report/json.hpp"

namespace lockstep::report {

/// Writes the records that the rings of the process still hold, oldest first: microseconds before the file is written, on the clock of this
/// rank; what a thread is in the middle of comes last. Nothing where nothing was recorded. Raises an input error where it cannot be
/// written.
inline void write_last_events(std::filesystem::path const& path) {
    struct Line {
        observe::Record record;
        std::string     thread;
        bool            open = false;
    };
    observe::Timeline const&   timeline = observe::process_timeline();
    observe::Nanoseconds const now      = timeline.now();
    std::vector<Line>          lines;
    for (std::size_t t = 0; t < timeline.tracks(); ++t) {
        observe::Track const& track  = timeline.track(t);
        std::uint64_t         cursor = track.written() > observe::Track::capacity ? track.written() - observe::Track::capacity : 0;
        track.read(cursor, [&](observe::Record const& r) { lines.push_back({r, std::string(track.thread())}); });
        if (observe::Doing const doing = track.doing(); doing.open)
            lines.push_back({{doing.event, 0, doing.index, doing.since, now, 0}, std::string(track.thread()), true});
    }
    if (lines.empty()) return;
    std::stable_sort(lines.begin(), lines.end(), [](Line const& a, Line const& b) { return a.record.end < b.record.end; });

    errno = 0;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    for (Line const& line : lines) {
        auto const before = [&](observe::Nanoseconds at) { return static_cast<double>(at - now) * 1e-3; };
        JsonWriter json;
        json.add_text("thread", line.thread).add_text("event", observe::name(line.record.event));
        json.add("index", line.record.index).add("part", line.record.part).add("bytes", line.record.bytes);
        json.add("begin_us", before(line.record.begin));
        if (line.open)
            json.raw("end_us", "null");
        else
            json.add("end_us", before(line.record.end));
        file << json.text() << '\n';
    }
    file.flush();
    if (!file) input_error("last events ", path, ": cannot be written: ", std::generic_category().message(errno));
}

}  // namespace lockstep::report
