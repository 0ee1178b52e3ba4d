#pragma once
// What a checkpoint says besides its tensors.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::io {

/// Where a run is besides its tensors: what the trainer does not know.
struct RunPosition {
    std::uint64_t next_sample      = 0;      // of the data: all before were used
    std::uint64_t skipped_in_a_row = 0;      // steps
    bool          evaluation_due   = false;  // one that belongs to this version was interrupted

    bool operator==(RunPosition const&) const = default;
};

struct SavedLossScale {
    double        scale       = 1;
    std::uint64_t clean_steps = 0;

    bool operator==(SavedLossScale const&) const = default;
};

struct CheckpointFacts {
    std::string                                      written_by;
    std::string                                      run;          // the same in all checkpoints of a run, also after it was continued
    std::uint64_t                                    version = 0;  // of the parameters: the number of updates
    std::uint64_t                                    seed    = 0;
    std::optional<SavedLossScale>                    loss_scale;  // none where nothing is scaled
    RunPosition                                      position;
    std::vector<std::pair<std::string, std::string>> configuration;  // for people
};

}  // namespace lockstep::io
