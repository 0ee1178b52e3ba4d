#pragma once
// What a step was: one struct.

#include <array>
#include <cstdint>
#include <string_view>

#include "lockstep/observe/ledger.hpp"
#include "lockstep/observe/step_clock.hpp"
#include "lockstep/state/version.hpp"

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

/// Bytes of this rank while the step ran, at most.
struct MemoryPeaks {
    std::size_t                                  total    = 0;
    std::size_t                                  forward  = 0;
    std::size_t                                  backward = 0;
    std::array<std::size_t, observe::categories> category{};
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
    double             loss_scale    = 1;  // that the step ran with
    observe::StepTimes times;              // of this rank
    std::uint64_t      bytes_sent = 0;     // by this rank
    MemoryPeaks        memory;
};

}  // namespace lockstep
