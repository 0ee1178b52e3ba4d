#pragma once
// Weights from and to files, by Hugging Face names.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <vector>

#include "lockstep/io/hugging_face.hpp"
#include "lockstep/kernel/checksum.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/inspect.hpp"
#include "lockstep/train/nonfinite.hpp"

namespace lockstep {

/// Starts from the weights of a file or folder; sizes must be the model's. Ranks that cannot read it, or read something else than the
/// others, are an error of all. Collective.
template <class Trainer>
void load_weights(Trainer& trainer, std::filesystem::path const& path) {
    std::uint64_t read = 0, elements = 0;
    together_at_length(trainer.strategy(), [&] {
        io::load_weights(path, trainer.model().sizes(), trainer.model().units(),
                         [&](std::size_t unit, state::Parameter const& parameter, std::span<float const> row_major) {
                             auto const odd = std::ranges::find_if(row_major, [](float value) { return !std::isfinite(value); });
                             if (odd != row_major.end())
                                 input_error(path.string(), ": ", parameter.name, ": expected finite numbers, found ", *odd, " at element ",
                                             odd - row_major.begin());
                             read += kernel::checksum(row_major, elements);
                             elements += row_major.size();
                             trainer.masters().assign(unit, parameter, row_major);
                         });
    });
    agree(trainer.strategy(), read, sentence("values of ", path.string()));
    trainer.weights_changed();
}

/// Writes `model.safetensors` and `config.json` into a folder: rank 0 writes, all ranks must call. Where it fails nothing is left behind,
/// and all ranks raise its error. Collective.
template <class Trainer>
void export_weights(Trainer& trainer, std::filesystem::path const& directory) {
    std::optional<io::HuggingFaceWriter> writer;
    std::vector<float>                   row_major;
    auto const                           on_first = [&](auto const& body) { on_first_rank_at_length(trainer.strategy(), body); };
    on_first([&] { writer.emplace(directory, trainer.model().sizes(), trainer.model().units()); });
    for (state::Unit const& unit : trainer.model().units())
        for (state::Parameter const& wanted : unit.parameters) {
            auto const values = parameter(trainer, wanted.name);
            on_first([&] {
                row_major.assign(values.begin(), values.end());
                writer->write(wanted, row_major);
            });
        }
    on_first([&] { writer->commit(); });
}

/// Raises a training error that names the first parameter with a master that is not finite. Collective.
template <class Trainer>
void check_finite(Trainer& trainer) {
    std::uint64_t number = 0, mine = 0;  // of the parameters, from 1
    for (std::size_t u = 0; u < trainer.model().units().size(); ++u) {
        auto const  values = trainer.masters().values(u);
        Range const owned  = trainer.strategy().owned(u).range;
        for (state::Parameter const& parameter : trainer.model().units()[u].parameters) {
            ++number;
            Range const part = intersect(parameter.range(), owned);
            if (mine != 0 || part.empty()) continue;
            auto const held = values.subspan(part.begin - owned.begin, part.size());
            if (!trainer.threads().run([&] { return all_finite(std::span<typename Trainer::Master const>(held)); })) mine = number;
        }
    }
    std::uint64_t first = 0;
    for (std::uint64_t found : trainer.strategy().gather_values(mine))
        if (found != 0 && (first == 0 || found < first)) first = found;
    if (first == 0) return;
    for (state::Unit const& unit : trainer.model().units())
        for (state::Parameter const& parameter : unit.parameters)
            if (--first == 0)
                training_error("weights: expected finite numbers, found others in ", parameter.name, " at version ", trainer.version());
}

}  // namespace lockstep
