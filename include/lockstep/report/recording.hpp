#pragma once
// The timelines of all ranks: copied step by step on each of them, put together on rank 0.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/range.hpp"
#include "lockstep/observe/ledger.hpp"
#include "lockstep/observe/records.hpp"
#include "lockstep/observe/timeline.hpp"

namespace lockstep::report {

/// What was recorded on all ranks. Times are those of the clock that all ranks share.
struct Recording {
    struct Thread {
        std::string      name;
        observe::Records records;  // in the order in which they ended
    };
    struct Rank {
        std::vector<Thread>    threads;
        observe::ClockRelation clock;
        std::uint64_t          lost = 0;  // records that were overwritten before they were copied
    };

    std::vector<std::string> units;  // by index
    std::vector<Rank>        ranks;
    std::size_t              gathered_among = 0;  // consecutive ranks that gather weights together; 0: all

    /// The ranks whose part a collective of this rank needs.
    Range partners(observe::Event issue, std::size_t rank) const noexcept {
        if (gathered_among == 0 || issue != observe::Event::gather_issued) return {0, ranks.size()};
        std::size_t const first = rank / gathered_among * gathered_among;
        return {first, std::min(ranks.size(), first + gathered_among)};
    }
};

/// Copies what happens on this rank.
class Recorder {
public:
    /// Begins with what is recorded from now on, and with the memory that is held now.
    void start() {
        observe::Timeline&         timeline = observe::timeline();
        observe::Nanoseconds const at       = timeline.now();
        for (std::size_t c = 0; c < observe::categories; ++c)
            observe::record({observe::Event::memory, 0, static_cast<std::uint32_t>(c), at, at,
                             observe::ledger()[static_cast<observe::Category>(c)].now.load()});
        cursors_.resize(timeline.tracks());
        for (std::size_t t = 0; t < cursors_.size(); ++t) cursors_[t] = timeline.track(t).written();
        cursors_[observe::track().number()] -= observe::categories;
    }

    /// Copies what was recorded since the last call; to be called before the rings come round.
    void copy() {
        observe::Timeline&  timeline = observe::timeline();
        std::uint64_t const tracks   = timeline.tracks();
        cursors_.resize(tracks);
        rank_.threads.resize(tracks);
        rank_.clock = timeline.relation();
        for (std::size_t t = 0; t < tracks; ++t) {
            observe::Track const& track  = timeline.track(t);
            Recording::Thread&    thread = rank_.threads[t];
            thread.name                  = track.thread();
            rank_.lost += track.read(cursors_[t], [&](observe::Record r) {
                r.begin = rank_.clock.common(r.begin);
                r.end   = rank_.clock.common(r.end);
                thread.records.push_back(r);
            });
        }
    }

    /// All ranks' copies on rank 0, nothing elsewhere. Collective.
    Recording gather(comm::Communicator const& ranks, std::vector<std::string> units) const {
        Recording all;
        if (ranks.rank() != 0) {
            Package const package = pack(rank_);
            ranks.send(package.sizes(), 0);
            ranks.send(package.numbers, 0);
            ranks.send(package.names, 0);
            ranks.send(package.records, 0);
            return all;
        }
        all.units = std::move(units);
        all.ranks.push_back(rank_);
        for (int rank = 1; rank < ranks.size(); ++rank) {
            std::vector<std::uint64_t> sizes(3);
            ranks.receive(sizes, rank);
            Package package{std::vector<std::uint64_t>(sizes[0]), std::string(sizes[1], ' '), observe::Records(sizes[2])};
            ranks.receive(package.numbers, rank);
            ranks.receive(package.names, rank);
            ranks.receive(package.records, rank);
            all.ranks.push_back(unpack(package));
        }
        return all;
    }

private:
    using ClockWords = std::array<std::uint64_t, sizeof(observe::ClockRelation) / sizeof(std::uint64_t)>;

    struct Package {
        std::vector<std::uint64_t> numbers;  // clock, lost, then a name's length and a count of records for each thread
        std::string                names;
        observe::Records           records;

        std::vector<std::uint64_t> sizes() const { return {numbers.size(), names.size(), records.size()}; }
    };

    static Package pack(Recording::Rank const& rank) {
        Package    p;
        auto const clock = std::bit_cast<ClockWords>(rank.clock);
        p.numbers.assign(clock.begin(), clock.end());
        p.numbers.push_back(rank.lost);
        for (Recording::Thread const& thread : rank.threads) {
            p.numbers.insert(p.numbers.end(), {thread.name.size(), thread.records.size()});
            p.names += thread.name;
            p.records.insert(p.records.end(), thread.records.begin(), thread.records.end());
        }
        return p;
    }
    static Recording::Rank unpack(Package const& p) {
        Recording::Rank rank;
        ClockWords      clock{};
        std::copy_n(p.numbers.begin(), clock.size(), clock.begin());
        rank.clock          = std::bit_cast<observe::ClockRelation>(clock);
        rank.lost           = p.numbers[ClockWords{}.size()];
        std::size_t letters = 0, records = 0;
        for (std::size_t n = ClockWords{}.size() + 1; n < p.numbers.size(); n += 2) {
            auto const from = p.records.begin() + static_cast<std::ptrdiff_t>(records);
            rank.threads.push_back({p.names.substr(letters, p.numbers[n]), {from, from + static_cast<std::ptrdiff_t>(p.numbers[n + 1])}});
            letters += p.numbers[n];
            records += p.numbers[n + 1];
        }
        return rank;
    }

    Recording::Rank            rank_;
    std::vector<std::uint64_t> cursors_;
};

}  // namespace lockstep::report
