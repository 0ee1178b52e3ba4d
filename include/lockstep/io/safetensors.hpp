#pragma once
// Reads safetensors files, strictly: what a file promises is checked before memory is taken, and read where and when it is needed.

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/io/safetensors_header.hpp"

namespace lockstep::io {

class SafetensorsFile {
public:
    /// Reads and checks the header only.
    explicit SafetensorsFile(std::filesystem::path const& path) : file_(path) {
        if (file_.size() < 8) input_error(path_name(), ": expected a safetensors header, found only ", file_.size(), " bytes");
        std::uint64_t length = 0;
        file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
        if (length > safetensors_header_limit)
            input_error(path_name(), ": header too large: expected at most ", safetensors_header_limit, " bytes, found ", length);
        if (length > file_.size() - 8)
            input_error(path_name(), ": invalid header length: expected at most ", file_.size() - 8, " bytes, found ", length);
        std::string text(static_cast<std::size_t>(length), '\0');
        file_.read(8, std::as_writable_bytes(std::span(text)));
        data_   = 8 + length;
        header_ = parse_safetensors_header(text, file_.size() - data_, path_name());
        std::ranges::sort(header_.tensors, {}, &TensorInfo::name);
    }

    std::string const&          path_name() const noexcept { return file_.name(); }
    std::span<TensorInfo const> tensors() const& noexcept { return header_.tensors; }  // by name
    std::span<TensorInfo const> tensors() const&& = delete;                            // would outlive the file
    Metadata const&             metadata() const noexcept { return header_.metadata; }

    /// The tensor of this name, or nullptr.
    TensorInfo const* find(std::string_view name) const noexcept {
        auto const at = std::ranges::lower_bound(header_.tensors, name, {}, [](TensorInfo const& t) { return std::string_view(t.name); });
        return at != header_.tensors.end() && at->name == name ? &*at : nullptr;
    }
    TensorInfo const& tensor(std::string_view name) const {
        TensorInfo const* const found = find(name);
        if (found == nullptr) input_error(path_name(), ": tensor \"", printable(name), "\": expected in the file, not found");
        return *found;
    }

    /// Elements first .. first + out.size() - 1 of a tensor in row-major order, from F32, BF16, F16 or F64.
    void read_range(TensorInfo const& tensor, std::uint64_t first, std::span<float> out) const {
        if (!floating(tensor.dtype)) refuse(tensor, "dtype must be F32, BF16, F16 or F64", name(tensor.dtype));
        check_range(tensor, first, out.size());
        if (tensor.dtype == Dtype::f32) return read_bytes(tensor, first, std::as_writable_bytes(out));
        std::array<std::byte, 16384> chunk;
        std::size_t const            together = chunk.size() / bytes(tensor.dtype);
        while (!out.empty()) {
            auto const part = out.first(std::min(together, out.size()));
            read_bytes(tensor, first, std::span(chunk).first(part.size() * bytes(tensor.dtype)));
            to_float(tensor.dtype, chunk.data(), part);
            out = out.subspan(part.size());
            first += part.size();
        }
    }

    /// A whole tensor.
    void read(std::string_view name, std::span<float> out) const {
        TensorInfo const& info = tensor(name);
        if (info.elements() != out.size()) refuse(info, sentence("expected ", out.size(), " elements"), info.elements());
        read_range(info, 0, out);
    }

    /// Rows (along the first dimension) from `first` on, as many as `out` holds; out.size() must be whole rows.
    void read_rows(std::string_view name, std::uint64_t first, std::span<float> out) const {
        TensorInfo const&   info = tensor(name);
        std::uint64_t const row  = info.rows() == 0 ? 0 : info.elements() / info.rows();
        if (first > info.rows()) refuse(info, sentence("expected at least ", first, " rows"), info.rows());
        if (row == 0 ? !out.empty() : out.size() % row != 0)
            refuse(info, sentence("expected rows that divide ", out.size(), " elements"), row);
        read_range(info, first * row, out);
    }

    /// A whole tensor of exactly this type, bit for bit.
    template <stored_element T>
    void read_exact(std::string_view name, std::span<T> out) const {
        TensorInfo const& info = tensor(name);
        if (info.dtype != *dtype_of<T>) refuse(info, sentence("dtype must be ", io::name(*dtype_of<T>)), io::name(info.dtype));
        if (info.elements() != out.size()) refuse(info, sentence("expected ", out.size(), " elements"), info.elements());
        read_bytes(info, 0, std::as_writable_bytes(out));
    }

    /// Elements from `first` on of a tensor of any type, as they lie in the file.
    void read_raw(TensorInfo const& tensor, std::uint64_t first, std::span<std::byte> out) const {
        check_range(tensor, first, out.size() / bytes(tensor.dtype));
        read_bytes(tensor, first, out);
    }

    /// A sentence about one tensor.
    template <class Found>
    [[noreturn]] void refuse(TensorInfo const& tensor, std::string_view expected, Found const& found) const {
        input_error(path_name(), ": tensor \"", printable(tensor.name), "\": ", expected, ", found ", found);
    }

private:
    void check_range(TensorInfo const& tensor, std::uint64_t first, std::uint64_t count) const {
        if (first > tensor.elements() || count > tensor.elements() - first)
            refuse(tensor, sentence("expected ", count, " elements from element ", first), sentence(tensor.elements(), " in all"));
    }
    void read_bytes(TensorInfo const& tensor, std::uint64_t first, std::span<std::byte> out) const {
        file_.read(data_ + tensor.begin + first * bytes(tensor.dtype), out);
    }

    ReadableFile      file_;
    std::uint64_t     data_ = 0;  // place of the first byte after the header
    SafetensorsHeader header_;
};

}  // namespace lockstep::io
