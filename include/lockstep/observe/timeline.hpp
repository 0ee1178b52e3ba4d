#pragma once
// The event timeline, always on. Recording works from any thread: two clock readings an event, no lock, no memory after the first one.
//
//     observe::mark(Event::gather_issued, unit, copy, bytes);                   an instant
//     { observe::Span wait(Event::gather_wait, unit); request.wait(); }         a span, booked as an activity if the thread runs a step
//     auto const started = observe::now(); ...                                  a span that began in another call
//     observe::record({.event = Event::gather, .index = unit, .begin = started, .end = observe::now(), .bytes = bytes});

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "lockstep/observe/track.hpp"

namespace lockstep::observe {

/// The tracks of all threads of one rank, and how its clock relates to the one that all ranks share.
class Timeline {
public:
    explicit Timeline(Clock clock = steady_clock()) : clock_(clock) {}
    Timeline(Timeline const&)            = delete;
    Timeline& operator=(Timeline const&) = delete;

    Nanoseconds now() const noexcept { return clock_.now(); }

    /// Of the thread that runs the rank.
    ClockRelation const& relation() const noexcept { return relation_; }
    void                 relate(ClockRelation relation) noexcept { relation_ = relation; }

    /// A track for the calling thread: one that an ended thread left, or a new one.
    Track& open() {
        std::lock_guard const lock(mutex_);
        if (!left_.empty()) {
            Track* const track = left_.back();
            left_.pop_back();
            track->reuse();
            return *track;
        }
        tracks_.push_back(std::make_unique<Track>(tracks_.size()));
        return *tracks_.back();
    }
    void close(Track& track) {
        std::lock_guard const lock(mutex_);
        track.clock = nullptr;
        left_.push_back(&track);
    }

    /// Tracks stay where they are as long as the timeline lives. They are numbered from 0.
    std::size_t tracks() const {
        std::lock_guard const lock(mutex_);
        return tracks_.size();
    }
    Track const& track(std::size_t number) const {
        std::lock_guard const lock(mutex_);
        return *tracks_[number];
    }

private:
    Clock                               clock_;
    ClockRelation                       relation_;
    mutable std::mutex                  mutex_;
    std::vector<std::unique_ptr<Track>> tracks_;
    std::vector<Track*>                 left_;
};

namespace detail {

/// What the calling thread records in.
struct Here {
    Timeline* timeline = nullptr;
    Track*    track    = nullptr;
};
inline constinit thread_local Here here;

/// Leaves the thread's track of the process to others when the thread ends.
struct Leave {
    Timeline* timeline = nullptr;
    Track*    track    = nullptr;

    Leave()                        = default;
    Leave(Leave const&)            = delete;
    Leave& operator=(Leave const&) = delete;
    void   take(Timeline& of) {
          timeline = &of;
          track    = &of.open();
    }
    ~Leave() {
        if (track != nullptr) timeline->close(*track);
    }
};

}  // namespace detail

/// The timeline of the process. It is never destroyed: threads may record to the very end.
inline Timeline& process_timeline() {
    static Timeline* const instance = new Timeline;
    return *instance;
}

/// Of the calling thread: the process's one, unless `UseTimeline` says otherwise.
inline Timeline& timeline() { return detail::here.timeline != nullptr ? *detail::here.timeline : process_timeline(); }

/// Of the calling thread.
inline Track& track() {
    detail::Here& here = detail::here;
    if (here.track == nullptr) {
        thread_local detail::Leave leave;
        if (here.timeline == nullptr) here.timeline = &process_timeline();
        if (leave.track == nullptr) leave.take(*here.timeline);
        here.track = leave.track;
    }
    return *here.track;
}

/// The calling thread records in this timeline for the length of a scope: a rank of a virtual cluster, or a thread that works for
/// one. The timeline must outlive the scope. A thread that a rank starts is given `observe::timeline()` of the thread that starts it.
class UseTimeline {
public:
    explicit UseTimeline(Timeline& timeline) : before_(detail::here) { detail::here = {&timeline, &timeline.open()}; }
    UseTimeline(UseTimeline const&)            = delete;
    UseTimeline& operator=(UseTimeline const&) = delete;
    ~UseTimeline() {
        detail::here.timeline->close(*detail::here.track);
        detail::here = before_;
    }

private:
    detail::Here before_;
};

inline Nanoseconds now() { return timeline().now(); }

inline void record(Record const& r) { track().record(r); }

/// An instant.
inline void mark(Event event, std::size_t index = 0, std::size_t part = 0, std::uint64_t bytes = 0) {
    Nanoseconds const at = now();
    record({event, static_cast<std::uint16_t>(part), static_cast<std::uint32_t>(index), at, at, bytes});
}

/// A name for the calling thread. The text must live as long as the process.
inline void name_thread(char const* thread) { track().rename(thread); }

/// A span for the length of a scope. Where the thread has a step's clock, the scope is booked as what `activity_of` says; spans may nest.
class Span {
public:
    explicit Span(Event event, std::size_t index = 0, std::size_t part = 0, std::uint64_t bytes = 0)
        : track_(track()), record_{event, static_cast<std::uint16_t>(part), static_cast<std::uint32_t>(index), timeline().now(), 0, bytes} {
        outside_ = track_.open(event, record_.index, record_.begin);
        if (track_.clock != nullptr) before_ = track_.clock->enter(activity_of(event), record_.begin);
    }
    Span(Span const&)            = delete;
    Span& operator=(Span const&) = delete;
    ~Span() {
        record_.end = timeline().now();
        track_.record(record_);
        track_.reopen(outside_);
        if (track_.clock != nullptr) track_.clock->enter(before_, record_.end);
    }

private:
    Track&      track_;
    Record      record_;
    Track::Open outside_;
    Activity    before_ = Activity::other;
};

/// Spans of the calling thread are booked in this clock for the length of a scope.
class BookIn {
public:
    explicit BookIn(StepClock& clock) : track_(track()), before_(std::exchange(track_.clock, &clock)) {}
    BookIn(BookIn const&)            = delete;
    BookIn& operator=(BookIn const&) = delete;
    ~BookIn() { track_.clock = before_; }

private:
    Track&     track_;
    StepClock* before_;
};

}  // namespace lockstep::observe
