#pragma once
// A trainer that continues from a checkpoint, whoever wrote it.

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/io/checkpoint_reader.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/checkpoint_state.hpp"
#include "lockstep/train/stored_state.hpp"

namespace lockstep {

namespace detail {

/// What the shapes of the tensors do not tell, and changes what the model computes, must be as in the run that saved.
inline void check_function(io::CheckpointFacts const& own, io::CheckpointReader const& checkpoint) {
    auto const value = [](io::CheckpointFacts const& facts, std::string_view name) {
        auto const found = std::ranges::find(facts.configuration, name, [](auto const& entry) { return std::string_view(entry.first); });
        return found == facts.configuration.end() ? std::string() : found->second;
    };
    for (std::string_view const name : {"arch", "heads", "kv_heads", "norm_eps", "rope_theta"})
        if (std::string const now = value(own, name), was = value(checkpoint.facts(), name); !now.empty() && !was.empty() && now != was)
            input_error(checkpoint.name(), ": expected a model with ", name, ' ', now, ", found ", was);
}

}  // namespace detail

/// Continues from the newest checkpoint in a folder, or from the one at `path`; returns what it says of the run that wrote it. After an
/// error, which all ranks raise, the trainer must not be used any more. Collective.
template <class Trainer>
io::CheckpointFacts resume(Trainer& trainer, std::filesystem::path const& path) {
    std::vector<StoredPart> const       parts = stored_parts(trainer);
    io::CheckpointFacts const           own   = checkpoint_facts(trainer);
    std::optional<io::CheckpointReader> checkpoint;
    together_at_length(trainer.strategy(), [&] {
        checkpoint.emplace(path);
        if (checkpoint->facts().seed != own.seed)
            input_error(checkpoint->name(), ": expected the seed of this run, ", own.seed, ", found ", checkpoint->facts().seed);
        std::vector<io::ExpectedTensor> expected;
        for (StoredPart const& part : parts) expected.push_back({part.name, part.dtype, part.shape()});
        checkpoint->check(expected);
        detail::check_function(own, *checkpoint);
    });
    agree(trainer.strategy(), checkpoint->digest(), "index of the checkpoint " + checkpoint->name());
    together_at_length(
        trainer.strategy(), [&] { read_state(parts, *checkpoint); }, false);  // a file is damaged for all
    continue_from(trainer, checkpoint->facts());
    trainer.weights_changed();
    return checkpoint->facts();
}

}  // namespace lockstep
