#pragma once
// How long collectives were on the wire, and how much of that something waited for.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/report/collectives.hpp"

namespace lockstep::report {

/// One kind of collective on one rank: means of a transfer.
struct CollectiveRow {
    std::string           name;
    double                count      = 0;  // a step
    std::uint64_t         bytes      = 0;  // that the rank sends
    double                wire_ms    = 0;  // after the last rank had come
    double                exposed_ms = 0;  // of this, while the step's thread waited, for this collective or another
    double                late_ms    = 0;  // waited for before the last rank had come
    std::optional<double> hidden;          // share of the time on the wire; empty where it took none
};

namespace detail {

/// Issues of the step's thread, in order: the k-th of one rank is the k-th of all.
inline std::vector<observe::Record> issues_of(Recording::Rank const& rank) {
    std::vector<observe::Record> issues;
    if (rank.threads.empty()) return issues;
    for (observe::Record const& r : rank.threads[step_thread(rank)].records)
        if (is_issue(r.event)) issues.push_back(r);
    return issues;
}

/// When the last rank had come to each collective; this rank's own issues alone where the ranks' records do not match.
inline std::vector<observe::Record> last_issues(Recording const& recording, std::size_t rank) {
    std::vector<observe::Record> last = issues_of(recording.ranks[rank]);
    for (std::size_t other = 0; other < recording.ranks.size(); ++other) {
        std::vector<observe::Record> const theirs = issues_of(recording.ranks[other]);
        if (theirs.size() != last.size()) continue;
        for (std::size_t k = 0; k < last.size(); ++k) {
            if (theirs[k].event != last[k].event || theirs[k].index != last[k].index) continue;
            Range const partners = recording.partners(last[k].event, rank);
            if (other >= partners.begin && other < partners.end) last[k].end = std::max(last[k].end, theirs[k].begin);
        }
    }
    return last;  // begin: this rank, end: the last one
}

struct Waiting {
    observe::Nanoseconds begin = 0, end = 0;
};

/// When the step's thread waited for collectives, or moved them on, whichever: in order, none overlaps another.
inline std::vector<Waiting> waiting_of(Recording::Rank const& rank) {
    std::vector<Waiting> all, merged;
    if (rank.threads.empty()) return all;
    for (observe::Record const& r : rank.threads[step_thread(rank)].records)
        if (is_wait(r.event) || is_progress(r.event)) all.push_back({r.begin, r.end});
    std::sort(all.begin(), all.end(), [](Waiting const& a, Waiting const& b) { return a.begin < b.begin; });
    for (Waiting const& w : all)
        if (merged.empty() || merged.back().end < w.begin)
            merged.push_back(w);
        else
            merged.back().end = std::max(merged.back().end, w.end);
    return merged;
}

/// How much of [begin, end) was spent waiting.
inline observe::Nanoseconds waited(std::vector<Waiting> const& waiting, observe::Nanoseconds begin, observe::Nanoseconds end) {
    observe::Nanoseconds sum = 0;
    auto w = std::partition_point(waiting.begin(), waiting.end(), [&](Waiting const& before) { return before.end <= begin; });
    for (; w != waiting.end() && w->begin < end; ++w) sum += std::min(w->end, end) - std::max(w->begin, begin);
    return sum;
}

}  // namespace detail

/// Of rank `rank`, in the order in which they first happen. Transfers outside of steps count too.
inline std::vector<CollectiveRow> collective_table(Recording const& recording, std::size_t rank) {
    Recording::Rank const&             own     = recording.ranks[rank];
    std::vector<observe::Record> const issues  = detail::last_issues(recording, rank);
    std::vector<detail::Waiting> const waiting = detail::waiting_of(own);
    std::size_t                        steps   = 0;
    for (auto const& thread : own.threads)
        for (observe::Record const& r : thread.records) steps += r.event == observe::Event::step;

    struct Sum {
        std::size_t          first = 0;
        double               count = 0, bytes = 0;
        observe::Nanoseconds wire = 0, exposed = 0, late = 0;
    };
    std::map<std::string, Sum> sums;
    for (Collective const& c : collectives(own)) {
        observe::Record const& transfer = own.threads[c.transfer.thread].records[c.transfer.record];
        observe::Nanoseconds   came     = transfer.begin;
        auto const later = std::partition_point(issues.begin(), issues.end(), [&](auto const& i) { return i.begin <= transfer.begin; });
        for (auto issue = later; issue != issues.begin();) {
            --issue;
            if (issue->event == issue_of(transfer.event) && issue->index == transfer.index && issue->part == transfer.part) {
                came = std::clamp(issue->end, transfer.begin, transfer.end);
                break;
            }
        }
        Sum& sum = sums.try_emplace(label(transfer, recording.units), Sum{.first = sums.size()}).first->second;
        sum.count += 1;
        sum.bytes += static_cast<double>(transfer.bytes);
        sum.wire += transfer.end - came;
        sum.exposed += detail::waited(waiting, came, transfer.end);
        for (RecordAt const& at : c.waits) {
            observe::Record const& wait = own.threads[at.thread].records[at.record];
            sum.late += std::max<observe::Nanoseconds>(std::min(wait.end, came) - wait.begin, 0);
        }
    }

    std::vector<CollectiveRow> table(sums.size());
    for (auto const& [name, sum] : sums) {
        auto const     ms  = [count = sum.count](observe::Nanoseconds ns) { return static_cast<double>(ns) * 1e-6 / count; };
        CollectiveRow& row = table[sum.first];
        row                = {name,
                              sum.count / static_cast<double>(std::max<std::size_t>(steps, 1)),
                              static_cast<std::uint64_t>(sum.bytes / sum.count),
                              ms(sum.wire),
                              ms(sum.exposed),
                              ms(sum.late),
                              {}};
        if (sum.wire > 0) row.hidden = std::clamp(1 - static_cast<double>(sum.exposed) / static_cast<double>(sum.wire), 0.0, 1.0);
    }
    return table;
}

}  // namespace lockstep::report
