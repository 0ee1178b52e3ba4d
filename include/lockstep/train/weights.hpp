#pragma once
// Weights from and to files, by Hugging Face names.

#include <filesystem>

#include "lockstep/io/hugging_face.hpp"
#include "lockstep/train/inspect.hpp"

namespace lockstep {

/// Starts from the weights of a file or folder; sizes must be the model's. Collective.
template <class Trainer>
void load_weights(Trainer& trainer, std::filesystem::path const& path) {
    io::load_weights(path, trainer.model().sizes(), trainer.model().units(),
                     [&](std::size_t unit, state::Parameter const& parameter, std::span<float const> row_major) {
                         trainer.masters().assign(unit, parameter, row_major);
                     });
    trainer.weights_changed();
}

/// Writes `model.safetensors` and `config.json` into a folder: rank 0 writes, all ranks must call. Collective.
template <class Trainer>
void export_weights(Trainer& trainer, std::filesystem::path const& directory) {
    auto const fill = [&](std::size_t, state::Parameter const& wanted, std::span<float> row_major) {
        auto const values = parameter(trainer, wanted.name);
        std::copy(values.begin(), values.end(), row_major.begin());
    };
    if (trainer.rank() == 0) {
        io::save_weights(directory, trainer.model().sizes(), trainer.model().units(), fill);
    } else {
        for (state::Unit const& unit : trainer.model().units())
            for (state::Parameter const& wanted : unit.parameters) parameter(trainer, wanted.name);
    }
}

}  // namespace lockstep
