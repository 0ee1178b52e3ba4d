#pragma once
// The header of a safetensors file: names, types, shapes and places, checked until nothing in it can surprise a reader.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/io/dtype.hpp"
#include "lockstep/io/json.hpp"

namespace lockstep::io {

/// A header longer than this is refused, as the format's reference does.
inline constexpr std::uint64_t safetensors_header_limit = 100'000'000;

struct TensorInfo {
    std::string                name;
    Dtype                      dtype = Dtype::f32;
    std::vector<std::uint64_t> shape;
    std::uint64_t              begin = 0;  // bytes, counted from the first byte after the header
    std::uint64_t              end   = 0;

    std::uint64_t elements() const noexcept { return (end - begin) / bytes(dtype); }
    std::uint64_t rows() const noexcept { return shape.empty() ? 1 : shape.front(); }
};

using Metadata = std::map<std::string, std::string>;

/// "[2,3]"
inline std::string shown(std::vector<std::uint64_t> const& shape) {
    std::string text = "[";
    for (std::size_t i = 0; i < shape.size(); ++i) (text += i != 0 ? "," : "") += std::to_string(shape[i]);
    return text + "]";
}

/// Bytes of a tensor, or nothing where the product does not fit 63 bits.
inline std::optional<std::uint64_t> tensor_bytes(Dtype dtype, std::vector<std::uint64_t> const& shape) noexcept {
    std::uint64_t size = bytes(dtype);
    for (std::uint64_t const extent : shape)
        if (__builtin_mul_overflow(size, extent, &size)) return std::nullopt;
    return size >> 63 == 0 ? std::optional(size) : std::nullopt;
}

struct SafetensorsHeader {
    std::vector<TensorInfo> tensors;  // by place in the file
    Metadata                metadata;
};

namespace detail {

/// Takes the events of a header's JSON; a value that has no business where it stands ends the reading.
class HeaderEvents {
public:
    explicit HeaderEvents(std::string const& source) : source_(source) {}

    SafetensorsHeader header;

    bool null() { return unexpected("null"); }
    bool boolean(bool value) { return unexpected(value ? "true" : "false"); }
    bool number_integer(Json::number_integer_t value) { return unexpected(std::to_string(value)); }
    bool number_float(Json::number_float_t, std::string const& text) { return unexpected(text); }
    bool binary(Json::binary_t&) { return unexpected("binary data"); }
    bool number_unsigned(Json::number_unsigned_t value) {
        if (place_ != Place::shape && place_ != Place::offsets) return unexpected(std::to_string(value));
        if (place_ == Place::shape && tensor_.shape.size() == 64) fail("shape must have at most 64 dimensions, found more");
        if (place_ == Place::offsets && offsets_ == 2) fail("data_offsets must be two numbers, found more");
        if (place_ == Place::shape) tensor_.shape.push_back(value);
        if (place_ == Place::offsets) (offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
        return true;
    }
    bool string(std::string& value) {
        if (place_ == Place::metadata) {
            if (!header.metadata.emplace(key_, value).second)
                input_error(source_, ": duplicate key \"", printable(key_), "\" in __metadata__: expected once, found twice");
            return true;
        }
        if (place_ != Place::tensor || key_ != "dtype") return unexpected('"' + value + '"');
        auto const dtype = find_dtype(value);
        if (!dtype) fail("expected a supported dtype, found ", printable(value));
        tensor_.dtype = *dtype;
        return true;
    }
    bool key(std::string& key) {
        key_ = key;
        if (place_ == Place::root) {
            tensor_      = {};
            tensor_.name = key;
        }
        if (place_ != Place::tensor) return true;
        unsigned const field = key == "dtype" ? 1u : key == "shape" ? 2u : key == "data_offsets" ? 4u : 0u;
        if (field == 0) fail("expected no fields but dtype, shape and data_offsets, found \"", printable(key), '"');
        if ((fields_ & field) != 0) fail("duplicate field \"", key, "\": expected once, found twice");
        fields_ |= field;
        return true;
    }
    bool start_object(std::size_t) {
        if (place_ == Place::outside) {
            place_ = Place::root;
        } else if (place_ == Place::root && key_ == "__metadata__") {
            if (std::exchange(has_metadata_, true)) input_error(source_, ": duplicate key \"__metadata__\": expected once, found twice");
            place_ = Place::metadata;
        } else if (place_ == Place::root) {
            place_  = Place::tensor;
            fields_ = 0;
        } else {
            unexpected("an object");
        }
        return true;
    }
    bool end_object() {
        if (place_ == Place::tensor) {
            if (fields_ != 7)
                fail("missing ",
                     (fields_ & 1u) == 0   ? "dtype"
                     : (fields_ & 2u) == 0 ? "shape"
                                           : "data_offsets",
                     ": expected one, found none");
            header.tensors.push_back(std::move(tensor_));
        }
        place_ = place_ == Place::root ? Place::outside : Place::root;
        return true;
    }
    bool start_array(std::size_t) {
        if (place_ != Place::tensor || key_ == "dtype") return unexpected("an array");
        place_   = key_ == "shape" ? Place::shape : Place::offsets;
        offsets_ = 0;
        return true;
    }
    bool end_array() {
        if (place_ == Place::offsets && offsets_ != 2) fail("data_offsets must be two numbers, found ", offsets_);
        place_ = Place::tensor;
        return true;
    }
    bool parse_error(std::size_t, std::string const&, std::exception const& fault) { not_json(source_ + ": header", fault); }

private:
    enum class Place { outside, root, metadata, tensor, shape, offsets };

    template <class... Parts>
    [[noreturn]] void fail(Parts const&... parts) const {
        input_error(source_, ": tensor \"", printable(tensor_.name), "\": ", parts...);
    }
    bool unexpected(std::string const& found) const {
        switch (place_) {
            case Place::outside:
                input_error(source_, ": header must be a JSON object, found ", printable(found, 80));
            case Place::root:
                if (key_ == "__metadata__") input_error(source_, ": __metadata__ must be an object, found ", printable(found, 80));
                fail("must be an object, found ", printable(found, 80));
            case Place::metadata:
                input_error(source_, ": __metadata__ value of \"", printable(key_), "\" must be a string, found ", printable(found, 80));
            case Place::tensor:
                fail(key_, key_ == "dtype" ? " must be a string" : " must be an array of unsigned integers", ", found ",
                     printable(found, 80));
            default:
                fail(key_, " must hold unsigned integers below 2^64, found ", printable(found, 80));
        }
    }

    std::string const& source_;
    Place              place_        = Place::outside;
    bool               has_metadata_ = false;
    std::string        key_;
    TensorInfo         tensor_;
    unsigned           fields_  = 0;
    int                offsets_ = 0;
};

/// Names differ, and the tensors fill the data from the first byte to the last without holes or overlaps.
inline void check_places(SafetensorsHeader& header, std::uint64_t data_bytes, std::string const& source) {
    auto& tensors = header.tensors;
    std::ranges::sort(tensors, {}, &TensorInfo::name);
    auto const twice = std::ranges::adjacent_find(tensors, {}, &TensorInfo::name);
    if (twice != tensors.end())
        input_error(source, ": tensor \"", printable(twice->name), "\": duplicate name: expected once, found twice");
    std::ranges::sort(tensors,
                      [](TensorInfo const& a, TensorInfo const& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    std::uint64_t end = 0;
    for (TensorInfo const& tensor : tensors) {
        auto const who = [&] { return sentence(source, ": tensor \"", printable(tensor.name), "\": "); };
        if (tensor.begin != end || tensor.end < tensor.begin)
            input_error(who(), "invalid data_offsets: must begin at ", end, " and not end before, found [", tensor.begin, ", ", tensor.end,
                        "]");
        auto const size = tensor_bytes(tensor.dtype, tensor.shape);
        if (!size)
            input_error(who(), "size of shape ", shown(tensor.shape), " of ", name(tensor.dtype),
                        " overflows: expected less than 2^63 bytes, found more");
        if (*size != tensor.end - tensor.begin)
            input_error(who(), "shape ", shown(tensor.shape), " of ", name(tensor.dtype), " needs ", *size,
                        " bytes, found data_offsets of ", tensor.end - tensor.begin);
        end = tensor.end;
    }
    if (end != data_bytes)
        input_error(source, ": expected ", end, " bytes of data, found ", data_bytes,
                    end > data_bytes ? " (truncated)" : " (trailing bytes)",
                    tensors.empty() ? std::string() : sentence("; last tensor \"", printable(tensors.back().name), '"'));
}

}  // namespace detail

/// Reads a header's JSON for a file with `data_bytes` bytes after it.
inline SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes, std::string const& source) {
    detail::HeaderEvents events(source);
    parse_events(text, source + ": header", events);
    detail::check_places(events.header, data_bytes, source);
    return std::move(events.header);
}

}  // namespace lockstep::io
