#pragma once
// Import and export of whole models by Hugging Face names.

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "lockstep/io/hugging_face_config.hpp"
#include "lockstep/io/hugging_face_reader.hpp"
#include "lockstep/io/hugging_face_writer.hpp"

namespace lockstep::io {

/// Calls sink(unit index, parameter, values) with each parameter's logical values, row-major. // (rows, columns)
/// Everything is checked before the first call. A rank that needs only some rows takes HuggingFaceReader.
template <class Sink>
    requires std::invocable<Sink&, std::size_t, state::Parameter const&, std::span<float const>>
void load_weights(std::filesystem::path const& path, state::ModelSizes const& sizes, std::span<state::Unit const> units, Sink&& sink) {
    HuggingFaceReader const reader(path, sizes, units);
    std::vector<float>      values;
    for (std::size_t unit = 0; unit < units.size(); ++unit)
        for (state::Parameter const& parameter : units[unit].parameters) {
            values.resize(parameter.elements());
            reader.read(parameter, {0, parameter.rows}, values);
            sink(unit, parameter, std::span<float const>(values));
        }
}

/// Calls source(unit index, parameter, values), which fills each parameter's logical values, row-major, and writes
/// model.safetensors and config.json into the directory, which is made where missing. // (rows, columns)
template <class Source>
    requires std::invocable<Source&, std::size_t, state::Parameter const&, std::span<float>>
void save_weights(std::filesystem::path const& directory, state::ModelSizes const& sizes, std::span<state::Unit const> units,
                  Source&& source, Dtype dtype = Dtype::f32) {
    HuggingFaceWriter  writer(directory, sizes, units, dtype);
    std::vector<float> values;
    for (std::size_t unit = 0; unit < units.size(); ++unit)
        for (state::Parameter const& parameter : units[unit].parameters) {
            values.resize(parameter.elements());
            source(unit, parameter, std::span(values));
            writer.write(parameter, values);
        }
    writer.commit();
}

}  // namespace lockstep::io
