#pragma once
// Writes a safetensors file piece by piece, laid out byte for byte as the format's reference writer does.

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/io/file.hpp"
#include "lockstep/io/safetensors_header.hpp"

namespace lockstep::io {

/// A tensor to be written.
struct TensorPlan {
    std::string                name;
    Dtype                      dtype = Dtype::f32;
    std::vector<std::uint64_t> shape;
};

namespace detail {

/// Places for all tensors: widest type first, then by name, without gaps.
inline std::vector<TensorInfo> lay_out(std::vector<TensorPlan> plans, std::string const& source) {
    std::ranges::sort(plans, {}, &TensorPlan::name);
    auto const twice = std::ranges::adjacent_find(plans, {}, &TensorPlan::name);
    if (twice != plans.end()) input_error(source, ": tensor \"", printable(twice->name), "\": duplicate name: expected once, found twice");
    std::ranges::stable_sort(plans, {}, &TensorPlan::dtype);
    std::vector<TensorInfo> tensors;
    std::uint64_t           end = 0;
    for (TensorPlan& plan : plans) {
        auto const size = tensor_bytes(plan.dtype, plan.shape);
        if (plan.name == "__metadata__" || !size || *size >= (std::uint64_t{1} << 62) - end)
            input_error(source, ": tensor \"", printable(plan.name), "\" of shape ", shown(plan.shape), " cannot be written");
        tensors.push_back({std::move(plan.name), plan.dtype, std::move(plan.shape), end, end + *size});
        end += *size;
    }
    return tensors;
}

/// The header with its length in front, padded with blanks so that the data begin at a multiple of 8.
inline std::string header_text(std::span<TensorInfo const> tensors, Metadata const& metadata, std::string const& source) {
    std::string text = "{\"__metadata__\":";
    try {
        text += Json(metadata).dump();
        for (TensorInfo const& tensor : tensors)
            text += sentence(',', Json(tensor.name).dump(), ":{\"dtype\":\"", name(tensor.dtype), "\",\"shape\":", shown(tensor.shape),
                             ",\"data_offsets\":[", tensor.begin, ',', tensor.end, "]}");
    } catch (Json::exception const&) {
        input_error(source, ": a name or a metadata value is not UTF-8");
    }
    text += '}';
    text.resize((text.size() + 7) / 8 * 8, ' ');
    if (text.size() > safetensors_header_limit)
        input_error(source, ": header too large: expected at most ", safetensors_header_limit, " bytes, found ", text.size());
    std::uint64_t const length = text.size();
    return std::string(reinterpret_cast<char const*>(&length), sizeof(length)) + text;
}

}  // namespace detail

/// The file appears with `commit`, when every tensor is complete; before, or after a failure, nothing is left behind.
class SafetensorsWriter {
public:
    /// `metadata` gets "format": "pt" where it has no format: other readers insist on it.
    SafetensorsWriter(std::filesystem::path const& path, std::vector<TensorPlan> plans, Metadata metadata = {},
                      PageCache cache = PageCache::used)
        : file_(path, cache) {
        metadata.emplace("format", "pt");
        tensors_                = detail::lay_out(std::move(plans), file_.name());
        std::string const front = detail::header_text(tensors_, metadata, file_.name());
        data_                   = front.size();
        file_.write(0, front);
        written_.resize(tensors_.size());
        for (std::size_t i = 0; i < tensors_.size(); ++i) by_name_.push_back(i);
        std::ranges::sort(by_name_, {}, [&](std::size_t i) -> std::string const& { return tensors_[i].name; });
    }

    std::span<TensorInfo const> tensors() const noexcept { return tensors_; }  // by place in the file

    /// The next elements of a floating tensor, rounded to nearest even where its type is narrower. Tensors may come in any order.
    void append(std::string_view name, std::span<float const> values) {
        std::size_t const index = find(name);
        Dtype const       dtype = tensors_[index].dtype;
        if (!floating(dtype)) refuse(index, "dtype must be F32, BF16, F16 or F64 to take floats", io::name(dtype));
        if (dtype == Dtype::f32) return append_bytes(index, std::as_bytes(values));
        std::array<std::byte, 16384> chunk;
        std::size_t const            together = chunk.size() / bytes(dtype);
        while (!values.empty()) {
            auto const part = values.first(std::min(together, values.size()));
            from_float(dtype, part, chunk.data());
            append_bytes(index, std::span(chunk).first(part.size() * bytes(dtype)));
            values = values.subspan(part.size());
        }
    }

    /// The next elements of a tensor of exactly this type, bit for bit.
    template <stored_element T>
    void append_exact(std::string_view name, std::span<T const> values) {
        std::size_t const index = find(name);
        if (tensors_[index].dtype != *dtype_of<T>)
            refuse(index, sentence("dtype must be ", io::name(*dtype_of<T>)), io::name(tensors_[index].dtype));
        append_bytes(index, std::as_bytes(values));
    }

    /// The next elements of a tensor, as they lie in the file.
    void append_raw(std::string_view name, std::span<std::byte const> elements) { append_bytes(find(name), elements); }

    /// Every tensor must be complete. Brings the bytes to the disk, still under another name.
    void finish() {
        for (std::size_t i = 0; i < tensors_.size(); ++i)
            if (std::uint64_t const size = tensors_[i].end - tensors_[i].begin; written_[i] != size)
                refuse(i, sentence("expected ", size, " bytes to be written"), written_[i]);
        file_.finish();
    }

    void commit() {
        finish();
        file_.commit();
    }

private:
    std::size_t find(std::string_view name) const {
        auto const at = std::ranges::lower_bound(by_name_, name, {}, [&](std::size_t i) { return std::string_view(tensors_[i].name); });
        if (at == by_name_.end() || tensors_[*at].name != name)
            input_error(file_.name(), ": tensor \"", printable(name), "\" is not part of this file");
        return *at;
    }
    void append_bytes(std::size_t index, std::span<std::byte const> values) {
        std::uint64_t const room = tensors_[index].end - tensors_[index].begin - written_[index];
        if (values.size() > room) refuse(index, sentence("expected at most ", room, " more bytes"), values.size());
        file_.write(data_ + tensors_[index].begin + written_[index], values);
        written_[index] += values.size();
    }
    template <class Found>
    [[noreturn]] void refuse(std::size_t index, std::string_view expected, Found const& found) const {
        input_error(file_.name(), ": tensor \"", printable(tensors_[index].name), "\": ", expected, ", found ", found);
    }

    ReplacingFile              file_;
    std::vector<TensorInfo>    tensors_;
    std::vector<std::size_t>   by_name_;
    std::vector<std::uint64_t> written_;   // bytes so far
    std::uint64_t              data_ = 0;  // place of the first byte after the header
};

}  // namespace lockstep::io
