#pragma once
// The watchdog: ranks tell each other where they are, so that a wait that does not end can say who is missing and where that rank was last.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/backoff.hpp"
#include "lockstep/comm/endpoint.hpp"
#include "lockstep/comm/turn.hpp"
#include "lockstep/comm/whereabouts.hpp"
#include "lockstep/observe/timeline.hpp"

namespace lockstep::comm {

/// Speaks on a communicator of its own, whose ranks are all of the program. Who calls it holds the turn to call MPI. Nothing waits: a rank
/// that has not taken the last word gets no other one.
class Watchdog {
public:
    using Clock = std::chrono::steady_clock;

    enum class End : std::int64_t { not_yet, well, failed, gave_up };  // gave_up: it has waited too long

    struct Word {
        Whereabouts   where    = {};
        std::uint64_t sentence = 0;  // of the error: the same number for the same sentence
        std::int64_t  code     = 0;  // of the exit
        End           end      = End::not_yet;
    };

    /// `speaks`: tells the others where this rank is. Whoever does not end MPI itself cannot see to it that all words are heard before.
    Watchdog(Endpoint end, bool speaks)
        : end_(std::move(end)),
          speaks_(speaks),
          heard_(static_cast<std::size_t>(end_.size())),
          letters_(heard_.size()),
          period_(OtherRanks::period * std::max<std::size_t>(1, heard_.size() / 8)),
          quiet_after_(std::max(1.0, 4 * std::chrono::duration<double>(period_).count())) {}
    Watchdog(Watchdog const&)            = delete;
    Watchdog& operator=(Watchdog const&) = delete;

    std::size_t       rank() const noexcept { return static_cast<std::size_t>(end_.rank()); }
    std::size_t       ranks() const noexcept { return heard_.size(); }
    Word const&       of(std::size_t rank) const noexcept { return heard_[rank].word; }
    Clock::time_point ended_at() const noexcept { return ended_at_; }  // when the last one of those that have ended did

    /// Hears what has arrived, and tells the others where this rank is if it has not done so for a while.
    void attend() {
        listen();
        auto const now = Clock::now();
        if (!speaks_ || ranks() == 1 || told_end_ || now < next_) return;
        next_ = now + period_;
        Word word;
        word.where = here();
        for (std::size_t other = 0; other < ranks(); ++other)
            if (other != rank() && of(other).end == End::not_yet && letters_[other].sent()) send(other, letters_[other], word, MPI_Issend);
    }

    void listen() {
        for (int arrived = 1; arrived != 0;) {
            MPI_Status status;
            if (MPI_Iprobe(MPI_ANY_SOURCE, tag, end_.handle(), &arrived, &status) != MPI_SUCCESS || arrived == 0) return;
            Heard& heard = heard_[static_cast<std::size_t>(status.MPI_SOURCE)];
            if (MPI_Recv(&heard.word, sizeof(Word), MPI_BYTE, status.MPI_SOURCE, tag, end_.handle(), MPI_STATUS_IGNORE) != MPI_SUCCESS)
                return;
            heard.at = Clock::now();
            if (heard.word.end != End::not_yet) ended_at_ = heard.at;
        }
    }

    /// The last word of this rank.
    void tell_end(Word word) {
        word.where          = here();
        told_end_           = true;
        heard_[rank()].word = word;
        last_.resize(ranks());
        for (std::size_t other = 0; other < ranks(); ++other)
            if (other != rank()) send(other, last_[other], word, MPI_Isend);
    }

    bool one_has_failed() {
        listen();
        return std::any_of(heard_.begin(), heard_.end(), [](Heard const& heard) { return heard.word.end == End::failed; });
    }

    /// Nobody could be heard for so long.
    void excuse(Clock::duration time) noexcept {
        for (Heard& heard : heard_)
            if (heard.at != Clock::time_point()) heard.at += time;
    }

    /// The first of the ranks that have not ended and have said nothing for longer; this one where there is none.
    std::size_t silent_for_longer_than(std::chrono::milliseconds time) const {
        for (std::size_t other = 0; other < ranks(); ++other)
            if (other != rank() && of(other).end == End::not_yet && silent_for(other) > std::chrono::duration<double>(time).count())
                return other;
        return rank();
    }

    /// All have told their end, and have this rank's.
    bool all_ended() {
        listen();
        bool all = true;
        for (std::size_t other = 0; other < ranks(); ++other)
            all = all && (other == rank() || (of(other).end != End::not_yet && letters_[other].sent() && last_[other].sent()));
        return all;
    }

    /// Who is missing in the collective of that number: "which rank 1 has not joined".
    std::string missing(CollectiveNumber number) {
        listen();
        std::string       absent, elsewhere, silent;
        std::size_t       absents = 0, silents = 0;
        Whereabouts const mine = here();
        for (std::size_t other = 0; other < ranks(); ++other) {
            if (other == rank()) continue;
            if (!heard(other)) continue;
            Whereabouts const& where = of(other).where;
            bool const         quiet = silent_for(other) > quiet_after_;
            bool const gone = number.operation != 0 ? where.engine == 0 || (mine.same_engine(where) && !where.has_issued(number.operation))
                              : number.agreement != 0 ? where.agreements < number.agreement
                                                      : mine.agrees() && !quiet && !where.agrees();
            if (gone && ++absents <= most_named) absent += (absents > 1 ? ", " : "") + std::to_string(other);
            if (other_in_place(mine, where, number.operation) && elsewhere.empty())
                elsewhere = sentence("in whose place rank ", other, " has issued ", where.operation(number.operation));
            if (quiet && ++silents <= most_named) silent += (silents > 1 ? ", " : "") + std::to_string(other);
        }
        auto const named = [](std::size_t count, std::string const& list, char const* one, char const* several) {
            return (count == 1 ? "rank " : "ranks ") + list + (count > most_named ? " and others " : " ") + (count == 1 ? one : several);
        };
        if (!elsewhere.empty()) return elsewhere;
        if (absents != 0) return "which " + named(absents, absent, "has not joined", "have not joined");
        if (silents != 0) return "of which " + named(silents, silent, "is silent", "are silent");
        bool all = number.operation != 0 || number.agreement != 0;
        for (std::size_t other = 0; other < ranks(); ++other)
            all = all && (other == rank() || (heard(other) && (number.operation == 0 || mine.same_engine(of(other).where))));
        return all ? "which all ranks have joined and some have not ended" : OtherRanks::somebody_is_missing;
    }

    /// A line a rank: whether it has joined that collective, and where it was when it was last heard.
    std::string report(CollectiveNumber number = {}) {
        Whereabouts const mine = here();
        std::string       lines;
        for (std::size_t other = 0; other < ranks(); ++other) {
            Whereabouts const& where = other == rank() ? mine : of(other).where;
            lines += sentence("\n    rank ", other, ": ");
            if (other != rank() && !heard(other)) {
                lines += "has not been heard";
                continue;
            }
            if (other != rank()) {
                double const age = silent_for(other);
                lines += age > quiet_after_ ? sentence("silent for ", rounded(age), " s, until then: ")
                                            : sentence("heard ", rounded(age), " s ago: ");
            }
            if (End const end = of(other).end; other != rank() && end != End::not_yet)
                lines += end == End::well     ? "has ended the program; "
                         : end == End::failed ? "has ended with an error; "
                                              : "has given up waiting; ";
            lines += joined(mine, where, number);
            lines += sentence(where);
        }
        return lines;
    }

private:
    static constexpr int         tag        = 1;
    static constexpr std::size_t most_named = 8;

    struct Heard {
        Word              word;
        Clock::time_point at{};
    };

    /// A word on its way.
    struct Letter {
        Word        word;
        MPI_Request request = MPI_REQUEST_NULL;

        bool sent() noexcept {
            if (request == MPI_REQUEST_NULL) return true;
            int        done = 0;
            bool const bad  = MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS;
            return done != 0 || bad;
        }
    };

    bool heard(std::size_t other) const noexcept { return heard_[other].at != Clock::time_point(); }

    /// Where this rank is, or was when its last engine ended.
    Whereabouts const& here() {
        if (IssueLog const* const log = IssueLog::current()) here_ = log->read(observe::now());
        here_.agreements = Endpoint::agreements();
        return here_;
    }
    static double rounded(double seconds) { return static_cast<double>(static_cast<std::int64_t>(seconds * 10)) / 10; }

    /// Started by MPI_Issend it is sent when it is taken: a rank that no longer listens gets one word, not many.
    void send(std::size_t other, Letter& letter, Word const& word, decltype(MPI_Isend)* start) {
        letter.word = word;
        if (start(&letter.word, sizeof(Word), MPI_BYTE, static_cast<int>(other), tag, end_.handle(), &letter.request) != MPI_SUCCESS)
            letter.request = MPI_REQUEST_NULL;
    }

    double silent_for(std::size_t other) const {
        return !heard(other) ? 0 : std::chrono::duration<double>(Clock::now() - heard_[other].at).count();
    }

    static bool other_in_place(Whereabouts const& mine, Whereabouts const& where, std::uint64_t number) {
        return mine.same_engine(where) && mine.remembers(number) && where.remembers(number) &&
               !mine.operation(number).same(where.operation(number));
    }

    static std::string joined(Whereabouts const& mine, Whereabouts const& where, CollectiveNumber number) {
        auto const [operation, agreement] = number;
        if (operation != 0 ? where.engine == 0 : agreement == 0) return "";
        if (operation != 0 && !mine.same_engine(where))
            return sentence("was last at another engine, with operation ", where.issued, ", ", where.operation(where.issued), "; ");
        if (other_in_place(mine, where, operation)) return sentence("has issued ", where.operation(operation), " in its place; ");
        if (operation != 0 ? where.has_issued(operation) : where.agreements >= agreement) return "has joined it; ";
        if (operation == 0) return sentence("has not joined it, its last one is agreement ", where.agreements, "; ");
        if (where.issued == 0) return "has not joined it, nor any before; ";
        return sentence("has not joined it, its last one is operation ", where.issued, ", ", where.operation(where.issued), "; ");
    }

    Endpoint            end_;
    bool                speaks_;
    std::vector<Heard>  heard_;    // of each rank
    std::vector<Letter> letters_;  // to each rank
    std::vector<Letter> last_;     // the last one to each
    Clock::duration     period_;
    double              quiet_after_;  // seconds without a word
    Whereabouts         here_;
    Clock::time_point   next_{}, ended_at_{};
    bool                told_end_ = false;
};

}  // namespace lockstep::comm
