#pragma once
// When each rank came to each collective of a step: what of a wait was for the wire, what for a late peer, and which one that was.
//
// A rank has come to a collective when it has issued its part. All ranks issue the same collectives in the same order, so the k-th of
// one rank is the k-th of all. At the end of a step each rank puts its times, by the clock that all ranks share, into words of its own
// of a sum over the ranks, which travels while the weights are updated. The part of a wait before the last rank had come is the late
// peer's; what the wire carried before that moment was waiting too.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/core/range.hpp"
#include "lockstep/observe/records.hpp"
#include "lockstep/observe/timeline.hpp"
#include "lockstep/train/step_result.hpp"

namespace lockstep {

class Arrivals {
public:
    /// Weights are gathered among `together` consecutive ranks; all other collectives are those of all ranks.
    Arrivals(std::size_t units, std::size_t rank, std::size_t ranks, std::size_t together)
        : units_(units), rank_(rank), ranks_(ranks), together_(together), durations_(2 * units + 3) {
        own_.reserve(expected);
        issues_.reserve(expected);
        transfers_.reserve(expected);
        all_.resize(ranks);
        skip_past();
    }

    /// First of all in a step, on its thread.
    void restart(observe::Nanoseconds begin) {
        begin_         = begin;
        issued_before_ = observe::track().issued();
        own_.clear();
        issues_.clear();
        read_own();  // data, and what was agreed on, since the last step
        skip_past();
        lost_ = 0;
    }

    /// Reads what this thread has recorded so far: to be called before its ring comes round.
    void read_own() {
        observe::Track& track = observe::track();
        if (cursors_.size() <= track.number()) cursors_.resize(track.number() + 1);
        lost_ += track.read(cursors_[track.number()], [&](observe::Record const& r) {
            own_.push_back(r);
            if (is_issue(r.event) && r.begin >= begin_) issues_.push_back({r, issues_.size()});
        });
    }

    /// To be called when the last wait is over, on the step's thread: shares the times. What this returns must be waited for.
    template <class Strategy>
    auto start(Strategy& strategy, observe::StepClock const& clock) {
        read_own();
        count_ = observe::track().issued() - issued_before_;
        words_.assign(ranks_ > 1 ? ranks_ * words_of_a_rank() : 0, 0);
        if (ranks_ > 1) fill(words_.data() + rank_ * words_of_a_rank(), clock.changes());
        return strategy.start_sum(words_);
    }

    /// To be called when that has been waited for. Moves what was due to late peers out of the waits, and tells what the wire did.
    void finish(StepResult& result, observe::StepClock const& clock, observe::Nanoseconds end) {
        for (observe::Record const& r : own_)
            if (is_wait(r.event) && r.begin >= begin_) {
                observe::Nanoseconds& wait = result.times[activity_of(r.event)];
                auto const            late = std::clamp<observe::Nanoseconds>(std::min(r.end, last_came(r)) - r.begin, 0, wait);
                wait -= late;
                result.times[observe::Activity::late_peer] += late;
            }
        read_others(end);
        overlap(result.communication, clock.changes(), end);
        if (ranks_ > 1) result.communication.late = slowest();
        result.communication.lost_records = std::exchange(lost_, 0);
        ended_                            = end;
    }

private:
    static constexpr std::size_t expected = 2048;  // records of a step; more of them cost an allocation

    struct Issue {
        observe::Record      record;
        std::uint64_t        number = 0;
        observe::Nanoseconds last   = 0;  // when the last rank came, by this rank's clock
    };
    struct Busy {
        observe::Nanoseconds begin = 0, end = 0;
    };

    std::size_t words_of_a_rank() const noexcept { return count_ + durations_; }

    /// Everything so far has been read.
    void skip_past() {
        observe::Timeline& timeline = observe::timeline();
        cursors_.resize(std::max(cursors_.size(), timeline.tracks()));
        for (std::size_t t = 0; t < cursors_.size(); ++t) cursors_[t] = timeline.track(t).written();
    }

    /// This rank's words: when it came to each collective, then how long it spent in what.
    void fill(std::int64_t* words, std::span<observe::StepClock::Change const> changes) {
        auto const& relation = observe::timeline().relation();
        if (issues_.size() == count_)  // else some were overwritten, and this rank counts as in time
            for (std::size_t k = 0; k < count_; ++k) words[k] = relation.common(issues_[k].record.begin);
        std::int64_t* const took   = words + count_;
        std::size_t         change = 0;
        std::int64_t        waited = 0;  // for other ranks, between the steps
        for (observe::Record const& r : own_) {
            using observe::Event;
            if (r.event == Event::batch_wait) took[2 * units_] += r.end - r.begin;
            if (r.event == Event::agreement && r.begin >= ended_ && r.begin < begin_) waited += r.end - r.begin;
            if (r.event == Event::norm || r.event == Event::update || r.event == Event::publish) took[2 * units_ + 1] += r.end - r.begin;
            if (r.begin < begin_) continue;  // the update of the step before
            if ((r.event != Event::forward && r.event != Event::backward) || r.index >= units_) continue;
            while (change + 1 < changes.size() && changes[change + 1].at <= r.begin) ++change;
            for (; change < changes.size() && changes[change].at < r.end; ++change) {
                auto const next = change + 1 < changes.size() ? changes[change + 1].at : r.end;
                if (changes[change].activity == observe::Activity::compute)
                    took[2 * r.index + (r.event == Event::backward)] += std::min(next, r.end) - std::max(changes[change].at, r.begin);
                if (next > r.end) break;
            }
        }
        std::int64_t const between = ended_ != 0 ? begin_ - ended_ - took[2 * units_] - waited : 0;
        took[2 * units_ + 2]       = std::max<std::int64_t>(between, 0);
    }

    std::int64_t word(std::size_t rank, std::size_t k) const noexcept { return words_[rank * words_of_a_rank() + k]; }

    /// The ranks whose part a collective needs.
    Range partners(observe::Record const& issue) const noexcept {
        if (issue.event != observe::Event::gather_issued) return {0, ranks_};
        std::size_t const first = rank_ / together_ * together_;
        return {first, first + together_};
    }

    /// When the last rank had come to the collective of a wait or of a transfer, by this rank's clock; 0 where that is unknown.
    observe::Nanoseconds last_came(observe::Record const& r) {
        if (ranks_ == 1 || issues_.size() != count_) return 0;
        observe::Event const wanted = issue_of(r.event);
        for (std::size_t i = issues_.size(); i-- > 0;) {
            Issue& issue = issues_[i];
            if (issue.record.event != wanted || issue.record.index != r.index || issue.record.part != r.part || issue.record.begin > r.end)
                continue;
            if (issue.last == 0) {
                Range const of = partners(issue.record);
                for (std::size_t rank = of.begin; rank < of.end; ++rank) issue.last = std::max(issue.last, word(rank, issue.number));
                issue.last = observe::timeline().relation().own(issue.last);
            }
            return issue.last;
        }
        return 0;
    }

    /// Transfers may have been recorded by any thread.
    void read_others(observe::Nanoseconds end) {
        transfers_.clear();
        auto const add = [&](observe::Record const& r) {
            if (!is_transfer(r.event) || r.end < begin_ || r.begin > end) return;
            Busy const busy{std::max({r.begin, begin_, last_came(r)}), std::min(r.end, end)};
            if (busy.begin < busy.end) transfers_.push_back(busy);
        };
        for (observe::Record const& r : own_) add(r);
        observe::Timeline& timeline = observe::timeline();
        if (cursors_.size() < timeline.tracks()) cursors_.resize(timeline.tracks());
        for (std::size_t t = 0; t < cursors_.size(); ++t)
            if (t != observe::track().number()) lost_ += timeline.track(t).read(cursors_[t], add);
    }

    /// How long anything was on the wire, and what the step's thread did meanwhile.
    void overlap(StepCommunication& result, std::span<observe::StepClock::Change const> changes, observe::Nanoseconds end) {
        std::sort(transfers_.begin(), transfers_.end(), [](Busy const& a, Busy const& b) { return a.begin < b.begin; });
        std::size_t          change = 0;
        observe::Nanoseconds seen   = begin_;
        for (Busy const& busy : transfers_) {
            observe::Nanoseconds from = std::max(busy.begin, seen);
            if (from >= busy.end) continue;
            seen = busy.end;
            result.wire_ns += busy.end - from;
            while (change + 1 < changes.size() && changes[change + 1].at <= from) ++change;
            while (from < busy.end && change < changes.size()) {
                observe::Nanoseconds const next  = change + 1 < changes.size() ? changes[change + 1].at : end;
                observe::Nanoseconds const until = std::min(std::max(next, from), busy.end);
                result.meanwhile[changes[change].activity] += until - from;
                from = until;
                if (from < busy.end) ++change;
            }
        }
    }

    LatePeer::Phase phase_of(std::size_t duration) const noexcept {
        using Phase = LatePeer::Phase;
        if (duration < 2 * units_) return duration % 2 == 0 ? Phase::forward : Phase::backward;
        return duration == 2 * units_ ? Phase::data : duration == 2 * units_ + 1 ? Phase::update : Phase::between_steps;
    }
    std::size_t unit_of(std::size_t duration) const noexcept { return duration < 2 * units_ ? duration / 2 : 0; }

    /// The rank that came last by most, or that took longest beyond the others, and in what.
    LatePeer slowest() {
        LatePeer late;
        for (std::size_t k = 0; k < count_; ++k) {
            std::int64_t last = 0, before = 0;
            std::size_t  who = 0;
            for (std::size_t rank = 0; rank < ranks_; ++rank) {
                std::int64_t const came = word(rank, k);
                if (came == 0) {
                    before = last = 0;  // one is unknown
                    break;
                }
                if (came > last) {
                    before = last;
                    last   = came;
                    who    = rank;
                } else {
                    before = std::max(before, came);
                }
            }
            if (last - before > late.ns) {
                late.ns   = last - before;
                late.rank = who;
            }
        }
        // What a rank took longer for than the middle one. Where ranks move transfers on only inside their own calls, a slow one may have
        // come in time and still hold up the others: then it is this that names it.
        std::int64_t most = late.ns, its_most = 0;
        for (std::size_t d = 0; d < durations_; ++d) {
            for (std::size_t rank = 0; rank < ranks_; ++rank) all_[rank] = word(rank, count_ + d);
            auto const middle = all_.begin() + static_cast<std::ptrdiff_t>((ranks_ - 1) / 2);
            std::nth_element(all_.begin(), middle, all_.end());
            std::int64_t const usual = *middle;
            for (std::size_t rank = 0; rank < ranks_; ++rank) {
                std::int64_t const excess = word(rank, count_ + d) - usual;
                if (excess > most) {
                    late = {.rank = rank, .ns = excess, .phase = phase_of(d), .unit = unit_of(d)};
                    most = its_most = excess;
                } else if (rank == late.rank && excess > its_most) {
                    late.phase = phase_of(d);
                    late.unit  = unit_of(d);
                    its_most   = excess;
                }
            }
        }
        return late;
    }

    std::size_t   units_, rank_, ranks_, together_;
    std::size_t   durations_;  // forward and backward of each unit, batch wait, update, time between steps
    std::uint64_t issued_before_ = 0;
    std::size_t   count_         = 0;  // collectives of the step
    std::uint64_t lost_          = 0;  // records that were overwritten before they could be read

    observe::Nanoseconds       begin_ = 0, ended_ = 0;
    std::vector<std::uint64_t> cursors_;  // of each track
    observe::Records           own_;      // since the last step
    std::vector<Issue>         issues_;   // of the step
    std::vector<Busy>          transfers_;
    std::vector<std::int64_t>  words_;
    std::vector<std::int64_t>  all_;  // one value a rank
};

}  // namespace lockstep
