#pragma once
// Work that a progress engine carries forward step by step: what it is about, how urgent it is, what it tells of itself.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string_view>
#include <utility>

#include "lockstep/observe/event.hpp"

namespace lockstep::comm {

/// Most urgent first. Tasks of one urgency take turns in the order in which they were issued.
enum class Urgency : std::uint8_t {
    sums,        // a few integers: counts, loss, norm
    parameters,  // weights that the step reads next
    gradients,   // nobody reads them before the backward pass is over
};

enum class Collective : std::uint8_t { sum, all_gather, reduce_scatter, all_reduce };

constexpr std::string_view name(Collective collective) noexcept {
    constexpr std::string_view names[]{"sum", "AllGather", "ReduceScatter", "AllReduce"};
    return names[static_cast<std::size_t>(collective)];
}

/// What a task works on.
struct Subject {
    Collective       collective = Collective::sum;
    std::string_view of         = "counts";  // "unit", "bucket"
    std::size_t      index      = 0;         // of the unit or bucket
    std::size_t      part       = 0;         // which copy of a unit's weights
    std::size_t      bytes      = 0;         // that this rank sends

    /// As a timeline calls it: the transfer, the wait for it, and work of the step's thread for it.
    observe::Event transfer() const noexcept {
        return collective == Collective::sum          ? observe::Event::sum
               : collective == Collective::all_gather ? observe::Event::gather
                                                      : observe::Event::reduction;
    }
    observe::Event wait() const noexcept {
        return collective == Collective::sum          ? observe::Event::sum_wait
               : collective == Collective::all_gather ? observe::Event::gather_wait
                                                      : observe::Event::reduction_wait;
    }
    observe::Event progress() const noexcept {
        return collective == Collective::sum          ? observe::Event::sum_progress
               : collective == Collective::all_gather ? observe::Event::gather_progress
                                                      : observe::Event::reduction_progress;
    }
};

/// "the AllGather of unit 3 (4096 bytes from this rank)", "the sum of counts".
inline std::ostream& operator<<(std::ostream& out, Subject const& subject) {
    if (subject.collective == Collective::sum) return out << "the sum of " << subject.of;
    return out << "the " << name(subject.collective) << " of " << subject.of << ' ' << subject.index << " (" << subject.bytes
               << " bytes from this rank)";
}

/// What an operation may have on its way to each other rank, and what it did with that.
struct Window {
    static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

    std::size_t depth     = unlimited;  // chunks that it may have on their way to a rank
    std::size_t in_flight = 0;          // chunks that it has on their way, to the rank to which they are most
    bool        moved     = false;      // it has started, finished or computed something
};

/// Set when this process has given up waiting for an operation while an exception unwound it: it waits for no other one then.
inline std::atomic<bool> has_abandoned{false};

/// A node of the engine's lists; who issues it derives from it. It stays where it is until it is idle again.
class Task {
public:
    using Step    = bool (*)(Task&, Window&);  // does what can be done without waiting; true when it is over
    using Abandon = void (*)(Task&) noexcept;  // forgets it

    Task() = default;
    Task(Step step, Abandon abandon, Urgency urgency, Subject subject) noexcept
        : step_(step), abandon_(abandon), urgency_(urgency), subject_(subject) {}
    Task(Task&& idle) noexcept { *this = std::move(idle); }
    Task& operator=(Task&& idle) noexcept {
        step_    = idle.step_;
        abandon_ = idle.abandon_;
        urgency_ = idle.urgency_;
        subject_ = idle.subject_;
        return *this;
    }

    /// Nobody works on it: it has not been issued, or it is over. What it wrote is then visible to the thread that asks.
    bool           idle() const noexcept { return !busy_.load(std::memory_order_acquire); }
    Subject const& subject() const noexcept { return subject_; }
    Urgency        urgency() const noexcept { return urgency_; }

    /// Counts from 1, over the tasks of one engine: as how many-th it was issued and was over.
    std::uint64_t issued_as() const noexcept { return issued_as_; }
    std::uint64_t finished_as() const noexcept { return finished_as_; }

protected:
    ~Task() = default;

private:
    friend class ProgressEngine;

    Step                 step_    = nullptr;
    Abandon              abandon_ = nullptr;
    Urgency              urgency_ = Urgency::gradients;
    Subject              subject_;
    std::atomic<bool>    busy_{false};
    bool                 started_   = false;  // `began_` says when
    observe::Nanoseconds began_     = 0;
    std::uint64_t        issued_as_ = 0, finished_as_ = 0;
    Task*                next_ = nullptr;
};

}  // namespace lockstep::comm
