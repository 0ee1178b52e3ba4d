#pragma once
// What a checkpoint holds of a trainer: masters and every slot of the optimizer by name, whatever the strategy, the layout and the number
// of ranks.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/io/checkpoint_facts.hpp"
#include "lockstep/io/dtype.hpp"
#include "lockstep/state/unit.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep {

/// What this rank holds of one stored tensor.
struct StoredPart {
    std::string             name;
    io::Dtype               dtype     = io::Dtype::f32;
    state::Parameter const* parameter = nullptr;
    std::byte*              held      = nullptr;  // first element of `range`
    Range                   range;                // of the buffer of the parameter's unit
    Range                   counted;              // part of the range: every element is counted by one rank, which writes it

    std::vector<std::uint64_t> shape() const {
        if (parameter->dimensions == 1) return {parameter->rows};
        return {parameter->rows, parameter->columns};
    }
};

/// All that a trainer stores, in the order in which it is written. The parts stay where they are while the trainer lives.
template <class Trainer>
std::vector<StoredPart> stored_parts(Trainer& trainer) {
    std::vector<StoredPart> parts;
    auto const&             units = trainer.model().units();
    for (std::size_t u = 0; u < units.size(); ++u) {
        auto const owned = trainer.strategy().owned(u);
        for (state::Parameter const& parameter : units[u].parameters) {
            auto const add = [&](std::string name, auto values) {
                constexpr auto dtype = io::dtype_of<typename decltype(values)::value_type>;
                static_assert(dtype.has_value(),
                              "lockstep: Optimizer must keep its state in a type that files hold; see dtype_of in lockstep/io/dtype.hpp");
                parts.push_back({std::move(name), *dtype, &parameter, std::as_writable_bytes(values).data(), owned.range, owned.counted});
            };
            add("master." + parameter.name, trainer.masters().values(u));
            for (std::size_t slot = 0; slot < Trainer::MasterCopy::state_slots; ++slot)
                add(sentence("optimizer.", slot, '.', parameter.name), trainer.masters().state(u, slot));
        }
    }
    return parts;
}

/// What a trainer knows of its checkpoint besides tensors: version, seed, loss scale, configuration.
template <class Trainer>
io::CheckpointFacts checkpoint_facts(Trainer& trainer) {
    io::CheckpointFacts facts{.written_by    = "lockstep " LOCKSTEP_VERSION,
                              .run           = {},
                              .version       = trainer.version(),
                              .seed          = trainer.options().seed,
                              .loss_scale    = {},
                              .position      = {},
                              .configuration = {}};
    if constexpr (Trainer::Scaling::dynamic) {
        auto const scale = trainer.loss_scale_state();
        facts.loss_scale = {scale.scale, scale.clean_steps};
    }
    for (Setting const& setting : configuration(trainer.model().sizes(), trainer.options()))
        facts.configuration.emplace_back(setting.name, setting.value);
    facts.configuration.emplace_back("ranks", std::to_string(trainer.ranks()));
    return facts;
}

/// Version and loss scale become those of a checkpoint. One without a loss scale leaves the trainer's.
template <class Trainer>
void continue_from(Trainer& trainer, io::CheckpointFacts const& facts) {
    auto scale = trainer.loss_scale_state();
    if (facts.loss_scale) scale = {facts.loss_scale->scale, facts.loss_scale->clean_steps};
    trainer.continue_from(facts.version, scale);
}

}  // namespace lockstep
