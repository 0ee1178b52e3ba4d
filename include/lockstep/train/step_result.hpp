#pragma once
// What a step was: one struct.

#include <array>
#include <cstdint>
#include <string_view>

#include "lockstep/observe/ledger.hpp"
#include "lockstep/observe/step_clock.hpp"
#include "lockstep/state/version.hpp"
#include "lockstep/train/nonfinite.hpp"

namespace lockstep {

/// Why a step left the parameters as they were.
enum class Skip { no, no_valid_tokens, nonfinite };

constexpr std::string_view name(Skip skip) noexcept {
    switch (skip) {
        case Skip::no_valid_tokens:
            return "no valid tokens";
        case Skip::nonfinite:
            return "non-finite loss or gradient";
        case Skip::no:
            break;
    }
    return "";
}

/// Bytes of this rank, at most: in all, and of each category.
struct MemoryPeak {
    std::size_t                                  total = 0;
    std::array<std::size_t, observe::categories> category{};

    std::size_t operator[](observe::Category c) const noexcept { return category[static_cast<std::size_t>(c)]; }
};

/// While the step ran. What it held counts whole arenas, which are kept from step to step; what a phase needed counts of them only what was
/// in use.
struct MemoryPeaks {
    MemoryPeak held, forward, backward;
};

/// The rank that came last to a collective of a step, by most.
struct LatePeer {
    enum class Phase : std::uint8_t { none, forward, backward, data, update, between_steps };

    std::size_t          rank  = 0;
    observe::Nanoseconds ns    = 0;            // after the last of the others
    Phase                phase = Phase::none;  // where it took longer than the others, by most
    std::size_t          unit  = 0;            // of forward or backward
};

constexpr std::string_view name(LatePeer::Phase phase) noexcept {
    constexpr std::array<std::string_view, 6> names{"", "forward", "backward", "waiting for data", "update", "between two steps"};
    return names[static_cast<std::size_t>(phase)];
}

/// Of this rank, while the step ran.
struct StepCommunication {
    observe::Nanoseconds wire_ns = 0;       // something was on the wire, and all ranks had come
    observe::StepTimes   meanwhile;         // what the step's thread did in that time
    LatePeer             late;              // the same on all ranks
    std::uint64_t        lost_records = 0;  // of the timeline, overwritten before they could be read: what is above may lack something
};

struct StepResult {
    state::Version     version       = 0;  // after the step
    double             loss          = 0;  // mean over all valid tokens of all ranks
    double             gradient_norm = 0;  // before clipping
    double             learning_rate = 0;
    std::uint64_t      tokens        = 0;  // of all ranks
    std::uint64_t      valid_tokens  = 0;  // of all ranks
    bool               applied       = false;
    Skip               skip          = Skip::no;
    NonFinite          nonfinite;       // where skip says so
    double             loss_scale = 1;  // that the step ran with
    observe::StepTimes times;           // of this rank
    std::uint64_t      bytes_sent = 0;  // by this rank
    StepCommunication  communication;
    MemoryPeaks        memory;
};

}  // namespace lockstep
