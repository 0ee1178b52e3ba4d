#pragma once
// Collectives of a recording: what issued one, when it was on the wire, and who waited for it.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/observe/ledger.hpp"
#include "lockstep/report/recording.hpp"

namespace lockstep::report {

/// "forward h.3", "AllGather h.3", "Reduction bucket 2".
inline std::string label(observe::Record const& r, std::vector<std::string> const& units) {
    using observe::Event;
    std::string const what = std::string(name(r.event));
    auto const        unit = [&] { return ' ' + (r.index < units.size() ? units[r.index] : "unit " + std::to_string(r.index)); };
    switch (r.event) {
        case Event::forward:
        case Event::backward:
        case Event::acquire:
        case Event::gather_issued:
        case Event::gather:
        case Event::gather_wait:
        case Event::gather_progress:
            return what + unit();
        case Event::bucket_ready:
            return "bucket " + std::to_string(r.index) + " ready";
        case Event::submit:
        case Event::reduction_issued:
        case Event::reduction:
        case Event::reduction_wait:
        case Event::reduction_progress:
            return what + " bucket " + std::to_string(r.index);
        case Event::step:
        case Event::version:
            return what + ' ' + std::to_string(r.index);
        default:
            return what;
    }
}

/// Points into a thread's records.
struct RecordAt {
    std::size_t thread = 0, record = 0;
};

/// One transfer on one rank, with the last issue before it and the waits for it.
struct Collective {
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    RecordAt              transfer;
    RecordAt              source{none, 0};  // bucket ready, else issued; thread `none` where there is neither
    std::vector<RecordAt> waits;
};

/// All transfers of a rank by the time they started.
inline std::vector<Collective> collectives(Recording::Rank const& rank) {
    using observe::Event;
    std::vector<Collective> all;
    auto const              at = [&](RecordAt where) -> observe::Record const& { return rank.threads[where.thread].records[where.record]; };
    auto const              each = [&](auto const& body) {
        for (std::size_t t = 0; t < rank.threads.size(); ++t)
            for (std::size_t r = 0; r < rank.threads[t].records.size(); ++r) body(RecordAt{t, r}, rank.threads[t].records[r]);
    };
    each([&](RecordAt where, observe::Record const& r) {
        if (is_transfer(r.event)) all.push_back({where, {Collective::none, 0}, {}});
    });
    std::stable_sort(all.begin(), all.end(), [&](auto const& a, auto const& b) { return at(a.transfer).begin < at(b.transfer).begin; });

    auto const same = [](observe::Record const& a, observe::Record const& b) {
        return issue_of(a.event) == issue_of(b.event) && a.index == b.index && a.part == b.part;
    };
    each([&](RecordAt where, observe::Record const& r) {
        if (r.event != Event::bucket_ready && !is_issue(r.event) && !is_wait(r.event)) return;
        if (is_wait(r.event)) {  // for the last one that had started when the wait ended
            for (auto c = all.rbegin(); c != all.rend(); ++c)
                if (at(c->transfer).begin <= r.end && same(at(c->transfer), r)) return c->waits.push_back(where);
            return;
        }
        for (Collective& c : all) {  // the first that started afterwards
            observe::Record const& transfer = at(c.transfer);
            bool const ready = r.event == Event::bucket_ready && transfer.event == Event::reduction && transfer.index == r.index;
            bool const issue = issue_of(transfer.event) == r.event && transfer.index == r.index && transfer.part == r.part;
            if (transfer.begin < r.begin || (!ready && !issue)) continue;
            bool const better = c.source.thread == Collective::none || at(c.source).event == r.event ||
                                (ready && at(c.source).event != Event::bucket_ready);
            if (better) c.source = where;
            return;
        }
    });
    return all;
}

/// The thread that runs the steps: the one with the first `step`, else the first one.
inline std::size_t step_thread(Recording::Rank const& rank) {
    for (std::size_t t = 0; t < rank.threads.size(); ++t)
        for (observe::Record const& r : rank.threads[t].records)
            if (r.event == observe::Event::step) return t;
    return 0;
}

}  // namespace lockstep::report
