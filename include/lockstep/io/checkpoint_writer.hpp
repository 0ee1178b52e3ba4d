#pragma once
// Writes a checkpoint: each rank its shard and a note of what is in it, then one rank the index from all notes.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/io/checkpoint_index.hpp"
#include "lockstep/io/checkpoint_place.hpp"
#include "lockstep/io/safetensors_writer.hpp"
#include "lockstep/kernel/mixed_sum.hpp"

namespace lockstep::io {

/// Row-major elements of a stored tensor of which a rank holds a copy.
struct CheckpointPiece {
    std::string                tensor;
    Dtype                      dtype = Dtype::f32;
    std::vector<std::uint64_t> shape;  // of the whole tensor
    Range                      range;
    std::size_t                offset = 0;  // of its first byte in the copy
    std::size_t                bytes() const noexcept { return range.size() * io::bytes(dtype); }
};

namespace detail {

inline std::string shard_name(std::size_t rank, std::size_t ranks) {
    return "state-" + numbered(rank + 1, 5) + "-of-" + numbered(ranks, 5) + ".safetensors";
}
inline std::string note_name(std::size_t rank) { return ".note-" + numbered(rank + 1, 5) + ".json"; }

/// The name of a piece in its file, and its shape there: that of the tensor where it is whole rows.
inline TensorPlan plan_of(CheckpointPiece const& piece, bool only) {
    std::uint64_t row = 1;
    for (std::size_t i = 1; i < piece.shape.size(); ++i) row *= piece.shape[i];
    std::vector<std::uint64_t> shape{piece.range.size()};
    if (piece.shape.size() > 1 && piece.range.begin % row == 0 && piece.range.end % row == 0) {
        shape    = piece.shape;
        shape[0] = piece.range.size() / row;
    }
    return {only ? piece.tensor : sentence(piece.tensor, '[', piece.range.begin, ':', piece.range.end, ']'), piece.dtype, shape};
}

}  // namespace detail

/// Writes state-<rank>-of-<ranks>.safetensors into a directory, brings it to the disk, and notes beside it what it holds. `pieces` that
/// are of one tensor follow each other. Ends early, without the note, where it is asked to stop.
inline void write_checkpoint_shard(std::filesystem::path const& directory, std::size_t rank, std::size_t ranks,
                                   std::span<CheckpointPiece const> pieces, std::span<std::byte const> copy,
                                   std::stop_token const& stop = {}) {
    constexpr std::size_t   together = checksum_elements / 16;  // elements that stay in a cache from their sum to their copy
    std::string const       file     = detail::shard_name(rank, ranks);
    std::vector<TensorPlan> plans;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        bool const before = i > 0 && pieces[i - 1].tensor == pieces[i].tensor;
        bool const after  = i + 1 < pieces.size() && pieces[i + 1].tensor == pieces[i].tensor;
        plans.push_back(detail::plan_of(pieces[i], !before && !after));
    }
    std::map<std::string_view, std::size_t> index;
    for (std::size_t i = 0; i < plans.size(); ++i) index.emplace(plans[i].name, i);
    SafetensorsWriter writer(directory / file, plans, {}, PageCache::passed);
    StoredTensors     stored;
    for (TensorInfo const& place : writer.tensors()) {  // one byte after the other
        CheckpointPiece const& piece = pieces[index.at(place.name)];
        StoredPiece            written{file, place.name, piece.range, {}};
        std::size_t const      width = bytes(piece.dtype);
        for (std::size_t done = 0; done < piece.range.size(); done += together) {
            if (stop.stop_requested()) return;
            std::size_t const count = std::min(together, piece.range.size() - done);
            auto const        part  = copy.subspan(piece.offset + done * width, count * width);
            if (done % checksum_elements == 0) written.checksums.push_back(0);
            written.checksums.back() += kernel::mixed_sum(width, part, piece.range.begin + done);
            writer.append_raw(place.name, part);
        }
        StoredTensor& tensor = stored[piece.tensor];
        tensor.dtype         = piece.dtype;
        tensor.shape         = piece.shape;
        tensor.pieces.push_back(std::move(written));
    }
    writer.commit();
    ReplacingFile note(directory / detail::note_name(rank));
    note.write(0, detail::tensors_json(stored).dump());
    note.commit();
}

/// Makes index.json of the notes of all ranks, which go. Fails where their pieces do not make up whole tensors, or where it has more than
/// `limit` bytes.
inline void write_checkpoint_index(std::filesystem::path const& directory, std::size_t ranks, CheckpointFacts const& facts,
                                   std::uint64_t limit = checkpoint_index_limit) {
    CheckpointIndex   index{facts, {}};
    std::string const name = (directory / detail::index_name).string();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        std::filesystem::path const note = directory / detail::note_name(rank);
        for (auto& [tensor, part] : parse_stored_tensors(read_json(note, checkpoint_index_limit), note.string())) {
            StoredTensor& whole = index.tensors.try_emplace(tensor, StoredTensor{part.dtype, part.shape, {}}).first->second;
            if (whole.dtype != part.dtype || whole.shape != part.shape)
                input_error(note.string(), ": tensor \"", printable(tensor), "\": expected shape ", shown(whole.shape), ", found ",
                            shown(part.shape));
            for (StoredPiece& piece : part.pieces) whole.pieces.push_back(std::move(piece));
        }
    }
    for (auto& [tensor, whole] : index.tensors)
        std::ranges::sort(whole.pieces, {}, [](StoredPiece const& piece) { return piece.range.begin; });
    check_coverage(index.tensors, name);
    std::string const text = index_text(index);
    if (text.size() > limit)
        input_error(name, ": expected an index of at most ", limit, " bytes, which is all that is read, found ", text.size());
    ReplacingFile file(directory / detail::index_name);
    file.write(0, text);
    file.commit();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        std::error_code failed;
        if (!std::filesystem::remove(directory / detail::note_name(rank), failed))
            input_error((directory / detail::note_name(rank)).string(), ": cannot be removed: ", failed.message());
    }
}

}  // namespace lockstep::io
