#pragma once
// Reads a checkpoint. Nothing in it is trusted: index and headers are checked before anything is read, every byte when it is read.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lockstep/io/checkpoint_index.hpp"
#include "lockstep/io/checkpoint_place.hpp"
#include "lockstep/io/safetensors.hpp"
#include "lockstep/kernel/mixed_sum.hpp"
#include "lockstep/tensor/booked_memory.hpp"

namespace lockstep::io {

/// A tensor that a reader needs.
struct ExpectedTensor {
    std::string                name;
    Dtype                      dtype = Dtype::f32;
    std::vector<std::uint64_t> shape;
};

class CheckpointReader {
public:
    /// `path`: a folder of checkpoints, whose newest is taken, or a checkpoint. Opens all files and checks that they hold what the index
    /// says.
    explicit CheckpointReader(std::filesystem::path const& path) : directory_(newest_checkpoint(path)) {
        std::filesystem::path const place = directory_ / detail::index_name;
        name_                             = place.string();
        std::string const text            = read_text(detail::own_file(place), checkpoint_index_limit);
        index_                            = parse_index(text, name_);
        digest_                           = kernel::mixed_sum<std::uint8_t>(std::as_bytes(std::span(text)), 0);
        for (auto const& [tensor, stored] : index_.tensors)
            for (StoredPiece const& piece : stored.pieces) check_piece(tensor, stored, piece);
        for (auto const& [file, shard] : files_)
            for (TensorInfo const& info : shard.tensors())
                if (!used_.contains({file, info.name})) shard.refuse(info, "expected in " + name_, "it not there");
        used_.clear();
    }

    std::filesystem::path const& directory() const noexcept { return directory_; }
    std::string const&           name() const noexcept { return name_; }  // of the index
    CheckpointFacts const&       facts() const noexcept { return index_.facts; }
    std::uint64_t                digest() const noexcept { return digest_; }  // of the index: the same on all ranks

    /// The checkpoint must hold these tensors and no others.
    void check(std::span<ExpectedTensor const> expected) const {
        std::set<std::string_view> names;
        for (ExpectedTensor const& tensor : expected) {
            names.insert(tensor.name);
            auto const found = index_.tensors.find(tensor.name);
            if (found == index_.tensors.end()) input_error(name_, ": expected the tensor \"", tensor.name, "\", not found");
            StoredTensor const& stored = found->second;
            if (stored.dtype != tensor.dtype)
                input_error(name_, ": tensor \"", tensor.name, "\": expected dtype ", io::name(tensor.dtype), ", found ",
                            io::name(stored.dtype));
            if (stored.shape != tensor.shape)
                input_error(name_, ": tensor \"", tensor.name, "\": expected shape ", shown(tensor.shape), ", found ", shown(stored.shape));
        }
        for (auto const& [name, stored] : index_.tensors)
            if (!names.contains(name)) input_error(name_, ": expected no tensor \"", printable(name), "\", found one");
    }

    /// Calls sink(range, bytes) for the parts of a tensor's row-major elements that lie in `wanted`, once the checksum of what they are
    /// part of has been verified.
    template <class Sink>
    void read(std::string const& tensor, std::span<Range const> wanted, Sink const& sink) {
        StoredTensor const& stored = index_.tensors.at(tensor);
        std::size_t const   width  = bytes(stored.dtype);
        for (StoredPiece const& piece : stored.pieces) {
            SafetensorsFile const& file = files_.at(piece.file);
            for (std::size_t c = 0; c < piece.checksums.size(); ++c) {
                std::size_t const begin = piece.range.begin + c * checksum_elements;
                Range const       chunk{begin, std::min(piece.range.end, begin + checksum_elements)};
                bool const        needed = std::ranges::any_of(wanted, [&](Range range) { return !intersect(range, chunk).empty(); });
                if (!needed) continue;
                if (chunk_.size() < chunk.size() * width) chunk_ = {chunk.size() * width, observe::Category::scratch};
                auto const content = std::span(chunk_.data(), chunk.size() * width);
                file.read_raw(*file.find(piece.name), begin - piece.range.begin, content);
                if (std::uint64_t const sum = kernel::mixed_sum(width, content, begin); sum != piece.checksums[c])
                    file.refuse(*file.find(piece.name),
                                sentence("elements ", chunk.begin, " to ", chunk.end, " of ", tensor, ": expected the checksum ",
                                         detail::hexadecimal(piece.checksums[c])),
                                detail::hexadecimal(sum));
                for (Range const range : wanted)
                    if (Range const part = intersect(range, chunk); !part.empty())
                        sink(part, std::span<std::byte const>(content).subspan((part.begin - begin) * width, part.size() * width));
            }
        }
    }

private:
    void check_piece(std::string const& tensor, StoredTensor const& stored, StoredPiece const& piece) {
        auto at = files_.find(piece.file);
        if (at == files_.end()) at = files_.emplace(piece.file, detail::inner_path(directory_, piece.file, name_)).first;
        SafetensorsFile const&  file = at->second;
        TensorInfo const* const info = file.find(piece.name);
        if (info == nullptr) input_error(file.path_name(), ": tensor \"", printable(piece.name), "\": expected by ", name_, ", not found");
        if (!used_.insert({piece.file, piece.name}).second)
            input_error(name_, ": tensor \"", printable(tensor), "\": expected a piece of its own, found that ", printable(piece.file),
                        " \"", printable(piece.name), "\" is used twice");
        if (info->dtype != stored.dtype) file.refuse(*info, sentence("expected dtype ", io::name(stored.dtype)), io::name(info->dtype));
        if (info->elements() != piece.range.size())
            file.refuse(*info, sentence("expected ", piece.range.size(), " elements"), info->elements());
    }

    std::filesystem::path                         directory_;
    std::string                                   name_;
    CheckpointIndex                               index_;
    std::uint64_t                                 digest_ = 0;
    std::map<std::string, SafetensorsFile>        files_;
    std::set<std::pair<std::string, std::string>> used_;   // file and tensor
    tensor::BookedBlock                           chunk_;  // what is read at once
};

}  // namespace lockstep::io
