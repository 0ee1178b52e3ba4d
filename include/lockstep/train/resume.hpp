#pragma once
// A trainer that continues from a checkpoint, whoever wrote it.

#include <filesystem>
#include <optional>
#include <vector>

#include "lockstep/io/checkpoint_reader.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/checkpoint_state.hpp"
#include "lockstep/train/stored_state.hpp"

namespace lockstep {

/// Continues from the newest checkpoint in a folder, or from the one at `path`; returns what it says of the run that wrote it. After an
/// error, which all ranks raise, the trainer must not be used any more. Collective.
template <class Trainer>
io::CheckpointFacts resume(Trainer& trainer, std::filesystem::path const& path) {
    std::vector<StoredPart> const       parts = stored_parts(trainer);
    std::uint64_t const                 seed  = checkpoint_facts(trainer).seed;
    std::optional<io::CheckpointReader> checkpoint;
    together_at_length(trainer.strategy(), [&] {
        checkpoint.emplace(path);
        if (checkpoint->facts().seed != seed)
            input_error(checkpoint->name(), ": expected the seed of this run, ", seed, ", found ", checkpoint->facts().seed);
        std::vector<io::ExpectedTensor> expected;
        for (StoredPart const& part : parts) expected.push_back({part.name, part.dtype, part.shape()});
        checkpoint->check(expected);
    });
    agree(trainer.strategy(), checkpoint->digest(), "index of the checkpoint " + checkpoint->name());
    together_at_length(
        trainer.strategy(), [&] { read_state(parts, *checkpoint); }, false);  // a file is damaged for all
    continue_from(trainer, checkpoint->facts());
    trainer.weights_changed();
    return checkpoint->facts();
}

}  // namespace lockstep
