#pragma once
// The index of a checkpoint: what is small, and for every stored tensor which file holds which elements, with checksums.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/range.hpp"
#include "lockstep/io/checkpoint_facts.hpp"
#include "lockstep/io/json.hpp"
#include "lockstep/io/safetensors_header.hpp"  // tensor_bytes, shown
#include "lockstep/kernel/mixed_sum.hpp"

namespace lockstep::io {

inline constexpr std::string_view checkpoint_format         = "lockstep checkpoint";
inline constexpr std::uint64_t    checkpoint_format_version = 1;
inline constexpr std::size_t      checksum_elements         = std::size_t{1} << 20;

/// Bytes. AdamW of 400e9 parameters on 1000 ranks has 1.1 million checksums of 26 bytes and, with weights in tiles, 0.2 million pieces of
/// 220 bytes: 75 MB.
inline constexpr std::uint64_t checkpoint_index_limit = 128'000'000;

/// Row-major elements `range` of a stored tensor: the tensor `name` of a file. A checksum for each `checksum_elements` of them, the last
/// for the rest: kernel::mixed_sum, whose indices are those of the stored tensor.
struct StoredPiece {
    std::string                file;
    std::string                name;
    Range                      range;
    std::vector<std::uint64_t> checksums;
};

struct StoredTensor {
    Dtype                      dtype = Dtype::f32;
    std::vector<std::uint64_t> shape;
    std::vector<StoredPiece>   pieces;  // by range

    std::uint64_t elements() const noexcept { return *tensor_bytes(dtype, shape) / bytes(dtype); }
};

using StoredTensors = std::map<std::string, StoredTensor>;

/// Checksums that a range has.
constexpr std::size_t checksum_count(Range range) noexcept { return (range.size() + checksum_elements - 1) / checksum_elements; }

struct CheckpointIndex {
    CheckpointFacts facts;
    StoredTensors   tensors;
};

namespace detail {

inline std::string hexadecimal(std::uint64_t word) {
    std::array<char, 17> text{};
    char* const          end = std::to_chars(text.data(), text.data() + text.size(), word, 16).ptr;
    return std::string(16 - static_cast<std::size_t>(end - text.data()), '0') + std::string(text.data(), end);
}

inline void refuse_unknown(JsonObject const& object, std::initializer_list<std::string_view> keys) {
    for (auto const& item : object.json().items()) {
        if (std::find(keys.begin(), keys.end(), item.key()) != keys.end()) continue;
        std::string known;
        for (std::string_view const key : keys) (known += known.empty() ? "" : ", ") += key;
        object.refuse(item.key(), "is not a key that belongs there: expected ", known, ", found another");
    }
}

inline Json tensors_json(StoredTensors const& tensors) {
    Json all = Json::object();
    for (auto const& [name, tensor] : tensors) {
        Json pieces = Json::array();
        for (StoredPiece const& piece : tensor.pieces) {
            Json checksums = Json::array();
            for (std::uint64_t const word : piece.checksums) checksums.push_back(hexadecimal(word));
            pieces.push_back({{"file", piece.file},
                              {"name", piece.name},
                              {"range", {piece.range.begin, piece.range.end}},
                              {"checksums", std::move(checksums)}});
        }
        all[name] = {{"dtype", std::string(io::name(tensor.dtype))}, {"shape", tensor.shape}, {"pieces", std::move(pieces)}};
    }
    return all;
}

/// Takes one stored tensor from JSON; messages name it.
class TensorEntry {
public:
    TensorEntry(Json const& json, std::string const& source, std::string const& name)
        : object_(json, sentence(source, ": tensor \"", printable(name), '"')) {}

    StoredTensor read() const {
        refuse_unknown(object_, {"dtype", "shape", "pieces"});
        StoredTensor      tensor;
        std::string const dtype = object_.string("dtype");
        auto const        found = find_dtype(dtype);
        if (!found) object_.refuse("dtype", "must be a supported type, found ", printable(dtype));
        tensor.dtype = *found;
        for (Json const& extent : array(object_, "shape")) tensor.shape.push_back(count(object_, "shape", extent));
        auto const size = tensor_bytes(tensor.dtype, tensor.shape);
        if (!size) object_.refuse("shape", "must be one whose bytes fit 63 bits, found ", shown(tensor.shape));
        for (Json const& piece : array(object_, "pieces")) tensor.pieces.push_back(read_piece(piece));
        std::ranges::sort(tensor.pieces, {}, [](StoredPiece const& p) { return std::pair(p.range.begin, p.range.end); });
        return tensor;
    }

private:
    static Json const& array(JsonObject const& object, std::string const& key) {
        if (!object.json().contains(key)) object.refuse(key, "must be an array, found nothing");
        Json const& value = object.json().at(key);
        if (!value.is_array()) object.refuse(key, "must be an array, found ", JsonObject::shown(value));
        return value;
    }
    static std::uint64_t count(JsonObject const& object, std::string const& key, Json const& value) {
        if (!value.is_number_unsigned()) object.refuse(key, "must hold unsigned integers below 2^64, found ", JsonObject::shown(value));
        return value.get<std::uint64_t>();
    }

    StoredPiece read_piece(Json const& json) const {
        JsonObject const object(json, object_.source());
        refuse_unknown(object, {"file", "name", "range", "checksums"});
        StoredPiece piece{object.string("file"), object.string("name"), {}, {}};
        Json const& range = array(object, "range");
        if (range.size() != 2) object.refuse("range", "must be two numbers, found ", range.size());
        piece.range = {count(object, "range", range[0]), count(object, "range", range[1])};
        if (piece.range.end <= piece.range.begin)
            object.refuse("range", "must not be empty, found [", piece.range.begin, ", ", piece.range.end, ']');
        for (Json const& word : array(object, "checksums")) {
            std::string const text = word.is_string() ? word.get<std::string>() : std::string();
            std::uint64_t     sum  = 0;
            auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), sum, 16);
            if (text.size() != 16 || code != std::errc() || end != text.data() + text.size())
                object.refuse("checksums", "must hold texts of 16 hexadecimal digits, found ", JsonObject::shown(word));
            piece.checksums.push_back(sum);
        }
        if (piece.checksums.size() != checksum_count(piece.range))
            object.refuse("checksums", "must be ", checksum_count(piece.range), " for the range [", piece.range.begin, ", ",
                          piece.range.end, "], found ", piece.checksums.size());
        return piece;
    }

    JsonObject object_;
};

}  // namespace detail

/// The pieces of every tensor cover it from the first element to the last, without holes or overlaps.
inline void check_coverage(StoredTensors const& tensors, std::string const& source) {
    for (auto const& [name, tensor] : tensors) {
        std::uint64_t end = 0;
        for (StoredPiece const& piece : tensor.pieces) {
            if (piece.range.begin != end)
                input_error(source, ": tensor \"", printable(name), "\": expected a piece that begins at element ", end, ", found [",
                            piece.range.begin, ", ", piece.range.end, "] of ", printable(piece.file),
                            piece.range.begin < end ? " (overlap)" : " (hole)");
            end = piece.range.end;
        }
        if (end != tensor.elements())
            input_error(source, ": tensor \"", printable(name), "\": expected pieces of ", tensor.elements(), " elements as its shape ",
                        shown(tensor.shape), " says, found ", end);
    }
}

/// The tensors of an index, or of the part of it that one rank wrote.
inline StoredTensors parse_stored_tensors(Json const& json, std::string const& source) {
    JsonObject const all(json, source + ": tensors");
    StoredTensors    tensors;
    for (auto const& item : json.items()) tensors.emplace(item.key(), detail::TensorEntry(item.value(), source, item.key()).read());
    return tensors;
}

/// Of an index without its own "checksum": the sum modulo 2^64 of kernel::mix64(i, byte i) of its shortest text, keys in order.
inline std::uint64_t index_checksum(Json const& json) {
    std::string const text = json.dump();
    return kernel::mixed_sum(1, std::as_bytes(std::span(text)), 0);
}

inline std::string index_text(CheckpointIndex const& index) {
    CheckpointFacts const& facts         = index.facts;
    Json                   configuration = Json::array();
    for (auto const& [name, value] : facts.configuration) configuration.push_back({printable(name, 1000), printable(value, 1000)});
    Json json{{"format", checkpoint_format},
              {"format_version", checkpoint_format_version},
              {"written_by", facts.written_by},
              {"run", facts.run},
              {"version", facts.version},
              {"seed", facts.seed},
              {"loss_scale", nullptr},
              {"position",
               {{"next_sample", facts.position.next_sample},
                {"skipped_in_a_row", facts.position.skipped_in_a_row},
                {"evaluation_due", facts.position.evaluation_due}}},
              {"configuration", std::move(configuration)},
              {"checksum_elements", checksum_elements},
              {"tensors", detail::tensors_json(index.tensors)}};
    if (facts.loss_scale) json["loss_scale"] = {{"scale", facts.loss_scale->scale}, {"clean_steps", facts.loss_scale->clean_steps}};
    json["checksum"] = index_checksum(json);
    return json.dump(1) + '\n';
}

/// Of an index, or "" where it names none.
inline std::string parse_run(std::string_view text, std::string const& source) {
    return JsonObject(parse_json(text, source), source).string("run", "");
}

/// Everything is checked but what only the files can tell. An index from which somebody has removed "checksum" is one, too.
inline CheckpointIndex parse_index(std::string_view text, std::string const& source) {
    Json             json = parse_json(text, source);
    JsonObject const top(json, source);
    if (std::string const format = top.string("format"); format != checkpoint_format)
        top.refuse("format", "must be \"", checkpoint_format, "\", found \"", printable(format), '"');
    if (std::uint64_t const version = top.unsigned_integer("format_version"); version != checkpoint_format_version)
        top.refuse("format_version", "must be ", checkpoint_format_version, ", found ", version);
    detail::refuse_unknown(top, {"format", "format_version", "written_by", "run", "version", "seed", "loss_scale", "position",
                                 "configuration", "checksum_elements", "tensors", "checksum"});
    CheckpointIndex  index;
    CheckpointFacts& facts = index.facts;
    facts.written_by       = printable(top.string("written_by"));
    facts.run              = top.string("run", "");
    facts.version          = top.unsigned_integer("version");
    if (facts.version > 0xFFFFFFFF) top.refuse("version", "must be at most 4294967295, found ", facts.version);
    facts.seed = top.unsigned_integer("seed");
    if (top.has("loss_scale")) {
        JsonObject const scale = top.object("loss_scale");
        detail::refuse_unknown(scale, {"scale", "clean_steps"});
        facts.loss_scale = {scale.number("scale"), scale.unsigned_integer("clean_steps")};
        if (!(facts.loss_scale->scale >= 0x1p-126 && facts.loss_scale->scale <= 0x1p126))
            scale.refuse("scale", "must be from 2^-126 to 2^126, found ", facts.loss_scale->scale);
    }
    JsonObject const position = top.object("position");
    detail::refuse_unknown(position, {"next_sample", "skipped_in_a_row", "evaluation_due"});
    facts.position = {position.unsigned_integer("next_sample"), position.unsigned_integer("skipped_in_a_row"),
                      position.boolean("evaluation_due", false)};
    if (facts.position.next_sample >> 63 != 0)  // so that batches can be added
        position.refuse("next_sample", "must be below 2^63, found ", facts.position.next_sample);
    if (facts.position.skipped_in_a_row > 0xFFFFFFFF)
        position.refuse("skipped_in_a_row", "must be at most 4294967295, found ", facts.position.skipped_in_a_row);
    if (!json.contains("configuration") || !json["configuration"].is_array())
        top.refuse("configuration", "must be an array of pairs, found ",
                   json.contains("configuration") ? JsonObject::shown(json["configuration"]) : "nothing");
    for (Json const& pair : json["configuration"]) {
        if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
            top.refuse("configuration", "must hold pairs of texts, found ", JsonObject::shown(pair));
        facts.configuration.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
    }
    if (std::uint64_t const together = top.unsigned_integer("checksum_elements"); together != checksum_elements)
        top.refuse("checksum_elements", "must be ", checksum_elements, ", found ", together);
    index.tensors = parse_stored_tensors(top.object("tensors").json(), source);
    check_coverage(index.tensors, source);
    if (top.has("checksum")) {
        std::uint64_t const written = top.unsigned_integer("checksum");
        json.erase("checksum");
        if (std::uint64_t const found = index_checksum(json); found != written)
            input_error(source, ": expected contents of checksum ", written, ", found ", found, ": it is not what was written");
    }
    return index;
}

}  // namespace lockstep::io
