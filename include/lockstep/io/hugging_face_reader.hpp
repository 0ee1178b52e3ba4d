#pragma once
// Reads a model's weights by their Hugging Face names, whole parameters or only the rows that a rank owns.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/io/hugging_face_files.hpp"
#include "lockstep/io/hugging_face_names.hpp"
#include "lockstep/state/model_sizes.hpp"
#include "lockstep/state/unit.hpp"

namespace lockstep::io {

namespace detail {

/// The first of many names, and how many more there are.
class NameList {
public:
    static constexpr std::size_t most = 20;

    void add(std::string const& name) {
        if (count_++ < most) text_ += (text_.empty() ? "" : ", ") + name;
    }
    std::size_t size() const noexcept { return count_; }
    std::string text() const { return count_ > most ? sentence(text_, " and ", count_ - most, " more") : text_; }

private:
    std::string text_;
    std::size_t count_ = 0;
};

}  // namespace detail

/// Refuses files at `path` in which a whole layer of the model is missing: before a model of that many layers is made, and at a cost that
/// depends on the files alone.
inline void check_layers(std::filesystem::path const& path, state::ModelSizes const& sizes) {
    TensorFiles const                  files(path);
    std::set<std::string, std::less<>> bare;
    for (auto const& [name, source] : files.tensors()) bare.emplace(bare_name(sizes.arch, name));
    for (std::size_t layer = 0; layer < sizes.layers; ++layer) {
        detail::NameList missing;
        std::size_t      tensors = 0;
        for (std::string_view const local : block_parameters(sizes.arch))
            for (HfTensor const& tensor : hugging_face_tensors(sizes, sentence("h.", layer, ".", local))) {
                ++tensors;
                if (!bare.contains(bare_name(sizes.arch, tensor.name))) missing.add(tensor.name);
            }
        if (missing.size() == tensors)
            input_error(files.name(), ": expected a ", name(sizes.arch), " model of ", sizes.layers, " layers, found missing tensors ",
                        missing.text(), layer + 1 < sizes.layers ? " and those of later layers" : "");
    }
}

class HuggingFaceReader {
public:
    /// Opens the files at `path` (see TensorFiles) and checks names, shapes and types of everything the model needs.
    /// Missing and unexpected names are listed together, the first of each.
    HuggingFaceReader(std::filesystem::path const& path, state::ModelSizes const& sizes, std::span<state::Unit const> units)
        : files_(path), sizes_(sizes) {
        sizes.validate();
        std::map<std::string, TensorSource, std::less<>> bare;
        for (auto const& [name, source] : files_.tensors())
            if (!bare.emplace(bare_name(sizes.arch, name), source).second)
                input_error(files_.name(), ": tensor \"", printable(name), "\": expected once, found with and without \"",
                            hugging_face_prefix(sizes.arch), '"');
        std::vector<HfTensor>    needed;
        std::vector<std::string> missing;
        for (state::Unit const& unit : units)
            for (state::Parameter const& parameter : unit.parameters)
                for (HfTensor const& tensor : checked(parameter)) {
                    needed.push_back(tensor);
                    if (auto const found = bare.find(bare_name(sizes.arch, tensor.name)); found == bare.end()) {
                        missing.push_back(tensor.name);
                    } else {
                        sources_.emplace(tensor.name, found->second);
                        bare.erase(found);
                    }
                }
        std::erase_if(bare, [&](auto const& item) { return is_buffer(sizes.arch, item.first); });
        auto const head = sizes.tied ? bare.extract("lm_head.weight") : decltype(bare)::node_type();
        check_names(missing, bare);
        for (HfTensor const& tensor : needed) check_shape(tensor);
        if (head) check_tied(head.mapped());
    }

    /// Fills rows [rows.begin, rows.end) of a parameter, row-major. // (rows, columns)
    /// Rows beyond the file's (a padded vocabulary) are zero.
    void read(state::Parameter const& parameter, Range rows, std::span<float> values) const {
        std::size_t const columns = parameter.columns;
        if (rows.end < rows.begin || rows.end > parameter.rows || values.size() != rows.size() * columns)
            input_error(files_.name(), ": parameter ", parameter.name, ": expected a buffer for rows ", rows.begin, " to ", rows.end,
                        " of ", parameter.rows, ", found ", values.size(), " elements");
        std::size_t end = rows.begin;
        for (HfTensor const& tensor : hugging_face_tensors(sizes_, parameter.name)) {
            Range const part = intersect(rows, {tensor.row_begin, tensor.row_end});
            if (part.empty()) continue;
            read_part(tensor, {part.begin - tensor.row_begin, part.end - tensor.row_begin},
                      values.subspan((part.begin - rows.begin) * columns, part.size() * columns));
            end = part.end;
        }
        std::ranges::fill(values.subspan((end - rows.begin) * columns), 0.0f);
    }

private:
    /// The parameter's tensors; its sizes must be those that the model sizes give it.
    std::vector<HfTensor> checked(state::Parameter const& parameter) const {
        std::vector<HfTensor> tensors = hugging_face_tensors(sizes_, parameter.name);
        std::size_t const     rows    = tensors.back().row_end;
        bool const            table   = rows == sizes_.vocab && tensors.size() == 1;
        if (parameter.columns != tensors.back().columns || parameter.rows < rows || (parameter.rows != rows && !table))
            input_error("parameter ", parameter.name, " must be [", rows, ",", tensors.back().columns, "], found [", parameter.rows, ",",
                        parameter.columns, "]");
        return tensors;
    }

    template <class Unexpected>
    void check_names(std::vector<std::string> const& missing, Unexpected const& unexpected) const {
        if (missing.empty() && unexpected.empty()) return;
        detail::NameList absent, strange;
        for (std::string const& name : missing) absent.add(name);
        for (auto const& [name, source] : unexpected) strange.add(printable(files_.info(source).name));
        std::string text;
        if (!missing.empty()) text += " missing tensors " + absent.text();
        if (!unexpected.empty()) text += (missing.empty() ? " unexpected tensors " : "; unexpected tensors ") + strange.text();
        input_error(files_.name(), ": expected a ", name(sizes_.arch), " model of ", sizes_.layers, " layers, found", text);
    }

    void check_shape(HfTensor const& tensor) const {
        TensorSource const&    source = sources_.at(tensor.name);
        TensorInfo const&      info   = files_.info(source);
        SafetensorsFile const& file   = files_.file(source);
        if (info.shape != tensor.shape()) file.refuse(info, "shape must be " + shown(tensor.shape()), shown(info.shape));
        if (!floating(info.dtype)) file.refuse(info, "dtype must be F32, BF16, F16 or F64", name(info.dtype));
    }

    /// A head in the file of a model that ties it must be the embedding once more.
    void check_tied(TensorSource const& head) const {
        TensorSource const&    table = sources_.at(std::string(hugging_face_prefix(sizes_.arch)) + "wte.weight");
        TensorInfo const &     a = files_.info(table), &b = files_.info(head);
        SafetensorsFile const& file = files_.file(head);
        if (a.shape != b.shape) file.refuse(b, "shape must be that of wte.weight, " + shown(a.shape), shown(b.shape));
        std::array<float, 4096> left, right;
        for (std::uint64_t first = 0; first < a.elements(); first += left.size()) {
            std::size_t const count = std::min<std::uint64_t>(left.size(), a.elements() - first);
            files_.file(table).read_range(a, first, std::span(left).first(count));
            file.read_range(b, first, std::span(right).first(count));
            if (std::memcmp(left.data(), right.data(), count * sizeof(float)) != 0)
                file.refuse(b, "the head is tied and must equal wte.weight", sentence("another value from element ", first, " on"));
        }
    }

    void read_part(HfTensor const& tensor, Range rows, std::span<float> values) const {
        TensorSource const&    source  = sources_.at(tensor.name);
        SafetensorsFile const& file    = files_.file(source);
        TensorInfo const&      info    = files_.info(source);
        std::size_t const      columns = tensor.columns, width = tensor.rows();
        if (!tensor.transposed) return file.read_range(info, rows.begin * columns, values);
        constexpr std::size_t together = 64;  // columns of the parameter, rows of the file
        std::vector<float>    block(std::min(together, columns) * width);
        for (std::size_t first = 0; first < columns; first += together) {
            std::size_t const count = std::min(together, columns - first);
            file.read_range(info, first * width, std::span(block).first(count * width));  // (count, width)
            for (std::size_t row = rows.begin; row < rows.end; ++row)
                for (std::size_t c = 0; c < count; ++c) values[(row - rows.begin) * columns + first + c] = block[c * width + row];
        }
    }

    TensorFiles                         files_;
    state::ModelSizes                   sizes_;
    std::map<std::string, TensorSource> sources_;  // by the full name
};

}  // namespace lockstep::io
