#pragma once
// Writes model.safetensors and config.json as transformers loads them, one parameter at a time.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/io/hugging_face_config.hpp"
#include "lockstep/io/hugging_face_names.hpp"
#include "lockstep/io/safetensors_writer.hpp"
#include "lockstep/state/model_sizes.hpp"
#include "lockstep/state/unit.hpp"

namespace lockstep::io {

/// The files appear with `commit`, once the bytes of both are on the disk. Before, or after a failure to bring them there, nothing is
/// left behind, not even a directory that was made.
class HuggingFaceWriter {
public:
    HuggingFaceWriter(std::filesystem::path const& directory, state::ModelSizes const& sizes, std::span<state::Unit const> units,
                      Dtype dtype = Dtype::f32)
        : sizes_(sizes),
          directory_(directory),
          config_(directory / "config.json"),
          weights_(directory / "model.safetensors", plans(sizes, units, dtype)) {
        config_.write(0, config_text(sizes, dtype));
    }

    /// One whole parameter, row-major; parameters may come in any order. // (rows, columns)
    void write(state::Parameter const& parameter, std::span<float const> values) {
        std::size_t const columns = parameter.columns;
        if (values.size() != parameter.elements())
            input_error("parameter ", parameter.name, ": expected ", parameter.elements(), " values, found ", values.size());
        for (HfTensor const& tensor : hugging_face_tensors(sizes_, parameter.name)) {
            if (tensor.columns != columns || tensor.row_end > parameter.rows)
                input_error("parameter ", parameter.name, " must have ", tensor.row_end, " rows of ", tensor.columns, ", found ",
                            parameter.rows, " of ", columns);
            auto const part = values.subspan(tensor.row_begin * columns, tensor.rows() * columns);
            if (tensor.transposed)
                append_transposed(tensor, part);
            else
                weights_.append(tensor.name, part);
        }
    }

    void commit() {
        config_.finish();
        weights_.finish();
        config_.commit();
        directory_.keep();
        weights_.commit();
    }

private:
    static std::vector<TensorPlan> plans(state::ModelSizes const& sizes, std::span<state::Unit const> units, Dtype dtype) {
        std::vector<TensorPlan> result;
        for (state::Unit const& unit : units)
            for (state::Parameter const& parameter : unit.parameters)
                for (HfTensor const& tensor : hugging_face_tensors(sizes, parameter.name))
                    result.push_back({tensor.name, dtype, tensor.shape()});
        return result;
    }

    void append_transposed(HfTensor const& tensor, std::span<float const> values) {
        std::size_t const     columns = tensor.columns, width = tensor.rows();
        constexpr std::size_t together = 64;  // columns of the parameter, rows of the file
        block_.resize(std::min(together, columns) * width);
        for (std::size_t first = 0; first < columns; first += together) {
            std::size_t const count = std::min(together, columns - first);
            for (std::size_t row = 0; row < width; ++row)
                for (std::size_t c = 0; c < count; ++c) block_[c * width + row] = values[row * columns + first + c];
            weights_.append(tensor.name, std::span(block_).first(count * width));  // (count, width)
        }
    }

    state::ModelSizes  sizes_;
    NewDirectory       directory_;
    ReplacingFile      config_;
    SafetensorsWriter  weights_;
    std::vector<float> block_;
};

}  // namespace lockstep::io
