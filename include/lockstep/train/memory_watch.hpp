#pragma once
// The memory peaks of a step, phase by phase, read from the ledger.

#include <algorithm>

#include "lockstep/observe/memory_curve.hpp"
#include "lockstep/train/step_result.hpp"

namespace lockstep {

class MemoryWatch {
public:
    void restart() noexcept {
        peaks_ = {};
        observe::ledger().restart_peaks();
    }

    /// `use` is that of the arenas in the phase that ends.
    void end_forward(observe::ArenaUse use) noexcept { end_phase(peaks_.forward, use); }
    void end_backward(observe::ArenaUse use) noexcept { end_phase(peaks_.backward, use); }

    MemoryPeaks end_step() noexcept {
        MemoryPeak update;
        end_phase(update, {});
        return peaks_;
    }

private:
    void end_phase(MemoryPeak& peak, observe::ArenaUse use) noexcept {
        constexpr auto   arenas = static_cast<std::size_t>(observe::Category::activations);
        observe::Ledger& ledger = observe::ledger();
        auto const       see    = [&](std::size_t seen, std::size_t unused, std::size_t& held, std::size_t& needed) {
            held   = std::max(held, seen);
            needed = std::max(needed, seen - std::min(seen, unused));
        };
        std::size_t const unused = use.held - use.most;
        see(ledger.total().peak.load(), unused, peaks_.held.total, peak.total);
        for (std::size_t c = 0; c < observe::categories; ++c)
            see(ledger[static_cast<observe::Category>(c)].peak.load(), c == arenas ? unused : 0, peaks_.held.category[c], peak.category[c]);
        ledger.restart_peaks();
    }

    MemoryPeaks peaks_;
};

}  // namespace lockstep
