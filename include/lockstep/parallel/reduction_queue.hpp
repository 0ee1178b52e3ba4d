#pragma once
// Reductions of a step in the order in which they were asked for, a few of them in flight at once.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/comm/wire.hpp"
#include "lockstep/observe/ledger.hpp"

namespace lockstep::parallel {

/// Owns the operations and the scratch memory of those in flight. After construction it allocates nothing.
template <class Reduction, class Master, class Storage>
class ReductionQueue {
public:
    static constexpr std::size_t in_flight = 2;

    struct Job {
        std::size_t       operation = 0;
        std::span<Master> buffer;          // this rank's contribution
        std::span<Master> mine;            // where the sums of this rank's part go, when scattered
        bool              add    = false;  // to what is in `mine`
        comm::Result      result = comm::Result::gathered;
        bool              clear  = false;  // zero the contribution when it is no longer needed
    };

    /// Without overlap, jobs start when `drain` is called.
    ReductionQueue(std::vector<Reduction> operations, bool overlap) : operations_(std::move(operations)), overlap_(overlap) {
        std::size_t most = 0;
        for (Reduction const& operation : operations_) most = std::max(most, operation.scratch_bytes());
        for (Slot& slot : slots_) slot.scratch = {most, observe::Category::buckets};
        waiting_.resize(operations_.size() + 1);
    }

    void submit(Job job) {
        waiting_[end_] = job;
        end_           = (end_ + 1) % waiting_.size();
        if (overlap_) advance();
    }

    /// Does what can be done without waiting.
    void advance() {
        for (Slot& slot : slots_)
            if (slot.busy && operations_[slot.job.operation].advance()) finish(slot);
        while (begin_ != end_) {
            auto const free = std::find_if(std::begin(slots_), std::end(slots_), [](Slot const& slot) { return !slot.busy; });
            if (free == std::end(slots_)) break;
            start(*free);
        }
    }

    /// Ends all jobs.
    void drain() {
        advance();
        while (Slot* const slot = oldest()) {
            operations_[slot->job.operation].wait();
            finish(*slot);
            advance();
        }
    }

    /// Ends the jobs up to the last one that still needs this buffer.
    void drain_until_free(Master const* buffer) {
        advance();
        while (needs(buffer)) {
            Slot* const slot = oldest();
            operations_[slot->job.operation].wait();
            finish(*slot);
            advance();
        }
    }

    /// True while a job that contributes from this buffer has not ended.
    bool needs(Master const* buffer) const noexcept {
        for (Slot const& slot : slots_)
            if (slot.busy && slot.job.buffer.data() == buffer) return true;
        for (std::size_t i = begin_; i != end_; i = (i + 1) % waiting_.size())
            if (waiting_[i].buffer.data() == buffer) return true;
        return false;
    }

private:
    struct Slot {
        Job                                          job;
        typename Storage::template Buffer<std::byte> scratch;
        bool                                         busy  = false;
        std::uint64_t                                order = 0;
    };

    void start(Slot& slot) {
        slot.job   = waiting_[begin_];
        slot.busy  = true;
        slot.order = started_++;
        begin_     = (begin_ + 1) % waiting_.size();
        Job& job   = slot.job;
        operations_[job.operation].start(job.buffer, job.mine, job.add, job.result, slot.scratch.span());
    }

    void finish(Slot& slot) {
        slot.busy = false;
        if (slot.job.clear) std::fill(slot.job.buffer.begin(), slot.job.buffer.end(), Master{});
    }

    Slot* oldest() noexcept {
        Slot* found = nullptr;
        for (Slot& slot : slots_)
            if (slot.busy && (found == nullptr || slot.order < found->order)) found = &slot;
        return found;
    }

    std::vector<Reduction> operations_;
    std::vector<Job>       waiting_;  // a ring
    std::size_t            begin_ = 0, end_ = 0;
    std::uint64_t          started_ = 0;
    Slot                   slots_[in_flight];
    bool                   overlap_;
};

}  // namespace lockstep::parallel
