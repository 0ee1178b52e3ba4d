#pragma once
// The memory peaks of a step, phase by phase, read from the ledger.

#include <algorithm>

#include "lockstep/train/step_result.hpp"

namespace lockstep {

class MemoryWatch {
public:
    void restart() noexcept {
        peaks_ = {};
        observe::ledger().restart_peaks();
    }

    void end_forward() noexcept { end_phase(peaks_.forward); }
    void end_backward() noexcept { end_phase(peaks_.backward); }

    MemoryPeaks end_step() noexcept {
        std::size_t update = 0;
        end_phase(update);
        peaks_.total = std::max({peaks_.forward, peaks_.backward, update});
        return peaks_;
    }

private:
    void end_phase(std::size_t& peak) noexcept {
        observe::Ledger& ledger = observe::ledger();
        peak                    = std::max(peak, ledger.total().peak.load());
        for (std::size_t c = 0; c < observe::categories; ++c)
            peaks_.category[c] = std::max(peaks_.category[c], ledger[static_cast<observe::Category>(c)].peak.load());
        ledger.restart_peaks();
    }

    MemoryPeaks peaks_;
};

}  // namespace lockstep
