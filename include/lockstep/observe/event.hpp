#pragma once
// What a timeline holds: spans and instants, each with what it concerns.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/observe/clock.hpp"

namespace lockstep::observe {

/// Where the time of a step's thread goes. Every nanosecond belongs to exactly one.
/// Waits are for parameters or for gradients and what is summed with them; their part before the last rank came is `late_peer`.
enum class Activity : std::uint8_t { compute, parameters_wait, gradients_wait, late_peer, update, data, other };

inline constexpr std::size_t activities = 7;

constexpr std::string_view name(Activity activity) noexcept {
    constexpr std::array<std::string_view, activities> names{
        "compute", "waiting for parameters", "waiting for gradients", "late peer", "update", "data", "other"};
    return names[static_cast<std::size_t>(activity)];
}

/// `index` is a unit, or a bucket, or counts the sums of a step. Three events make a collective: `..._issued` (an instant: from here on
/// this rank's part may travel), the span from started to finished on the wire, and each wait of the step's thread for it. Where no thread
/// of its own moves them on, the step's thread does, in spans of progress: `index` is then that of the most urgent one.
enum class Event : std::uint8_t {
    batch_wait,          // for the next batch
    forward,             // of a unit; part: micro-step
    backward,            // of a unit; part: micro-step
    merge,               // partial sums of gradients added up; part: micro-step
    acquire,             // weights of a unit made readable: waiting and all else that this takes
    bucket_ready,        // instant: the last gradient of a bucket is there
    submit,              // a bucket handed over to be reduced
    norm,                // squares of the gradients
    clip,                // the verdict
    update,              // of the owned parameters
    publish,             // the new weights become those that are read
    version,             // instant; index: the version that begins
    drain,               // what is still on its way waited for
    step,                // all of a step; index: the version it ends with
    memory,              // instant; index: a category, or `arena_in_use`; bytes: held from here on
    gather_issued,       // AllGather of a unit's weights; part: which copy
    gather,              //
    gather_wait,         //
    gather_progress,     // moved on by the step's thread
    reduction_issued,    // of a bucket; part: which stage, where there are several
    reduction,           //
    reduction_wait,      //
    reduction_progress,  //
    sum_issued,          // of integers that all ranks agree on
    sum,                 //
    sum_wait,            //
    sum_progress,        //
    agreement,           // with the other ranks, outside of the engine: together, agree, evaluation
};

inline constexpr std::size_t events = 28;

constexpr std::string_view name(Event event) noexcept {
    constexpr std::array<std::string_view, events> names{"batch wait",
                                                         "forward",
                                                         "backward",
                                                         "merge",
                                                         "acquire",
                                                         "bucket ready",
                                                         "submit",
                                                         "norm",
                                                         "clip",
                                                         "update",
                                                         "publish",
                                                         "version",
                                                         "drain",
                                                         "step",
                                                         "memory",  //
                                                         "AllGather issued",
                                                         "AllGather",
                                                         "AllGather wait",
                                                         "AllGather progress",  //
                                                         "Reduction issued",
                                                         "Reduction",
                                                         "Reduction wait",
                                                         "Reduction progress",  //
                                                         "Sum issued",
                                                         "Sum",
                                                         "Sum wait",
                                                         "Sum progress",
                                                         "agreement"};
    return names[static_cast<std::size_t>(event)];
}

/// What the step's thread does during a span of this kind.
constexpr Activity activity_of(Event event) noexcept {
    switch (event) {
        case Event::forward:
        case Event::backward:
        case Event::merge:
            return Activity::compute;
        case Event::acquire:
        case Event::gather_wait:
        case Event::gather_progress:
            return Activity::parameters_wait;
        case Event::submit:
        case Event::drain:
        case Event::reduction_wait:
        case Event::reduction_progress:
        case Event::sum_wait:
        case Event::sum_progress:
        case Event::agreement:
            return Activity::gradients_wait;
        case Event::norm:
        case Event::clip:
        case Event::update:
        case Event::publish:
            return Activity::update;
        case Event::batch_wait:
            return Activity::data;
        default:
            return Activity::other;
    }
}

/// Index of `Event::memory` behind the categories of the ledger: the part of `activations` that is used at the moment.
inline constexpr std::uint32_t arena_in_use = 9;

constexpr bool is_issue(Event event) noexcept {
    return event == Event::gather_issued || event == Event::reduction_issued || event == Event::sum_issued;
}
constexpr bool is_transfer(Event event) noexcept { return event == Event::gather || event == Event::reduction || event == Event::sum; }
constexpr bool is_wait(Event event) noexcept {
    return event == Event::gather_wait || event == Event::reduction_wait || event == Event::sum_wait;
}

constexpr bool is_progress(Event event) noexcept {
    return event == Event::gather_progress || event == Event::reduction_progress || event == Event::sum_progress;
}

/// The issue that belongs to a transfer or a wait.
constexpr Event issue_of(Event event) noexcept {
    switch (event) {
        case Event::gather:
        case Event::gather_wait:
            return Event::gather_issued;
        case Event::reduction:
        case Event::reduction_wait:
            return Event::reduction_issued;
        default:
            return Event::sum_issued;
    }
}

/// A span, or an instant where begin and end are equal.
struct Record {
    Event         event = Event::version;
    std::uint16_t part  = 0;
    std::uint32_t index = 0;
    Nanoseconds   begin = 0;
    Nanoseconds   end   = 0;
    std::uint64_t bytes = 0;  // that this rank sends, where it is a collective

    bool operator==(Record const&) const = default;
};

}  // namespace lockstep::observe
