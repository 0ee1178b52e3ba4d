#pragma once
// Reductions of a step, handed to the engine as gradients become ready; a few of them are under way at once.

#include <algorithm>
#include <cstdint>
#include <functional>  // std::less, which orders pointers into different buffers
#include <span>
#include <vector>

#include "lockstep/comm/task.hpp"
#include "lockstep/comm/wire.hpp"
#include "lockstep/observe/ledger.hpp"

namespace lockstep::parallel {

/// Owns the operations and the scratch memory of those under way, and stays where it is. After construction it allocates nothing. Jobs
/// begin in the order in which they were submitted, as the vendor's collectives must; they may end in another one.
template <class Reduction, class Master, class Storage, class Engine>
class ReductionQueue {
public:
    struct Job {
        std::size_t       operation = 0;
        std::span<Master> buffer;          // this rank's contribution
        std::span<Master> mine;            // where the sums of this rank's part go, when scattered
        bool              add    = false;  // to what is in `mine`
        comm::Result      result = comm::Result::gathered;
        bool              clear  = false;  // zero the contribution, but for `mine`, when it is no longer needed
    };

    /// `subjects` say what each operation is about. Without overlap, jobs start when they are waited for.
    ReductionQueue(Engine& engine, std::vector<Reduction> operations, std::vector<comm::Subject> const& subjects, std::size_t in_flight,
                   bool overlap)
        : engine_(engine), places_(std::max<std::size_t>(1, in_flight)), overlap_(overlap) {
        std::size_t most = 0;
        for (Reduction const& operation : operations) most = std::max(most, operation.scratch_bytes());
        for (Place& place : places_) place.scratch = {most, observe::Category::buckets};
        entries_.reserve(operations.size());
        for (std::size_t i = 0; i < operations.size(); ++i) entries_.emplace_back(*this, std::move(operations[i]), subjects[i]);
        deferred_.reserve(operations.size());
    }

    ReductionQueue(ReductionQueue const&)            = delete;
    ReductionQueue& operator=(ReductionQueue const&) = delete;

    /// An operation's job before this one is waited for.
    void submit(Job const& job) {
        Entry& entry = entries_[job.operation];
        if (entry.deferred) flush();
        engine_.wait(entry);
        entry.job = job;
        if (overlap_) {
            start(entry);
            engine_.advance();
        } else {
            entry.deferred = true;
            deferred_.push_back(&entry);
        }
    }

    /// No job is under way or waits for `drain`.
    bool idle() const noexcept {
        return deferred_.empty() && std::all_of(entries_.begin(), entries_.end(), [](Entry const& entry) { return entry.idle(); });
    }

    /// Ends all jobs.
    void drain() {
        flush();
        for (Entry& entry : entries_) engine_.wait(entry);
    }

    /// Ends the jobs that contribute from this buffer.
    void drain_until_free(Master const* buffer) {
        flush();
        for (Entry& entry : entries_)
            if (!entry.idle() && entry.job.buffer.data() == buffer) engine_.wait(entry);
    }

private:
    struct Place {
        typename Storage::template Buffer<std::byte> scratch;
        std::uint64_t                                ended = 0;  // jobs that have used it; the engine's
    };

    struct Entry : comm::Task {
        Entry(ReductionQueue& owner, Reduction operation, comm::Subject const& subject)
            : Task(&step, &forget, comm::Urgency::gradients, subject), queue(&owner), reduction(std::move(operation)) {}

        ReductionQueue* queue;
        Reduction       reduction;
        Job             job;
        bool            deferred = false;
        Place*          place    = nullptr;
        std::uint64_t   lap      = 0;  // jobs that have the place before this one
        std::uint64_t   number   = 0;  // jobs that begin before this one, on all ranks
        bool            begun    = false;
        bool            reduced  = false;
        std::size_t     cleared  = 0;  // elements
    };

    /// Starts and ends the jobs that were put off: without overlap, none runs beside compute.
    void flush() {
        for (Entry* const entry : deferred_) start(*entry);
        for (Entry* const entry : deferred_) engine_.wait(*entry);
        deferred_.clear();
    }

    void start(Entry& entry) {
        entry.deferred = false;
        entry.place    = &places_[started_ % places_.size()];
        entry.lap      = started_ / places_.size();
        entry.number   = started_++;
        entry.begun    = false;
        entry.reduced  = false;
        entry.cleared  = 0;
        entry.reduction.prepare(entry.job.buffer, entry.job.mine, entry.job.add, entry.job.result, entry.place->scratch.span());
        engine_.issue(entry);
    }

    // The engine's.

    static bool step(comm::Task& task, comm::Window& window) {
        Entry& entry = static_cast<Entry&>(task);
        if (entry.place->ended != entry.lap || (!entry.begun && entry.number != entry.queue->begun_)) return false;
        if (!entry.reduced) entry.reduced = entry.reduction.advance(window);
        if (!entry.begun && (entry.reduced || window.moved || window.in_flight != 0)) {
            entry.begun = true;
            ++entry.queue->begun_;
        }
        if (!entry.reduced || (entry.job.clear && !clear_some(entry, window))) return false;
        ++entry.place->ended;
        return true;
    }
    static void forget(comm::Task& task) noexcept { static_cast<Entry&>(task).reduction.abandon(); }

    /// Zeroes a block of the contribution; true when that was the last.
    static bool clear_some(Entry& entry, comm::Window& window) {
        constexpr std::size_t block = std::size_t{1} << 18;
        auto const            part  = entry.job.buffer.subspan(entry.cleared, std::min(block, entry.job.buffer.size() - entry.cleared));
        Master* const         begin = part.data();
        Master* const         end   = begin + part.size();
        std::fill(begin, std::clamp(entry.job.mine.data(), begin, end, std::less<>()), Master{});
        std::fill(std::clamp(entry.job.mine.data() + entry.job.mine.size(), begin, end, std::less<>()), end, Master{});
        entry.cleared += part.size();
        window.moved = true;
        return entry.cleared == entry.job.buffer.size();
    }

    Engine&             engine_;
    std::vector<Entry>  entries_;
    std::vector<Place>  places_;
    std::vector<Entry*> deferred_;
    std::uint64_t       started_ = 0;  // jobs
    std::uint64_t       begun_   = 0;  // jobs; the engine's
    bool                overlap_;
};

}  // namespace lockstep::parallel
