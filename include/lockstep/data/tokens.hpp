#pragma once
// A sequence of token ids, wherever it lies: in a file or in memory.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/core/assertion.hpp"
#include "lockstep/data/booked_vector.hpp"
#include "lockstep/data/token_file.hpp"
#include "lockstep/data/token_shard.hpp"

namespace lockstep::data {

/// Read-only and cheap to copy: slices share the file or the memory of the whole. Positions are 64-bit. A file that has become shorter
/// is an input error where it is read.
class Tokens {
public:
    /// `.bin` is an llm.c shard, anything else is text: one byte, one token.
    static Tokens open(std::filesystem::path const& path) { return path.extension() == ".bin" ? shard(path) : text(path); }

    static Tokens text(std::filesystem::path const& path) {
        return in_file(path, [](auto const&) { return Place{1, 0}; });
    }

    static Tokens shard(std::filesystem::path const& path) {
        return in_file(path, [&](TokenFile const& file) {
            std::array<std::byte, shard_header> header;
            std::span const                     bytes = std::span(header).first(std::min(file.size(), shard_header));
            file.read(0, bytes);
            return Place{read_shard_header(path, bytes, file.size()).width, shard_header};
        });
    }

    /// Several files as one text, in the given order.
    static Tokens texts(std::span<std::filesystem::path const> paths, std::string name) {
        auto source  = std::make_shared<Source>();
        source->name = std::move(name);
        std::error_code failed;
        for (auto const& path : paths) {
            if (std::filesystem::is_regular_file(path, failed) && std::filesystem::file_size(path, failed) == 0) continue;
            source->parts.push_back({source->owned.size(), path.string()});
            TokenFile const   file(path);
            std::size_t const begin = source->owned.size();
            source->owned.resize(begin + file.size());
            file.read(0, std::span(source->owned).subspan(begin));
        }
        if (source->owned.empty()) input_error("data ", source->name, ": expected text, found nothing in ", paths.size(), " files");
        return Tokens(source, {1, 0}, source->owned.size());
    }

    /// Text in memory.
    static Tokens bytes(std::string_view text, std::string name = "text") {
        auto const raw = std::as_bytes(std::span(text));
        return held({raw.begin(), raw.end()}, 1, std::move(name));
    }

    /// Ids in memory; none may be negative.
    static Tokens ids(std::span<std::int32_t const> ids, std::string name = "tokens") {
        auto const negative = std::find_if(ids.begin(), ids.end(), [](std::int32_t id) { return id < 0; });
        if (negative != ids.end()) input_error("data ", name, ": token ", negative - ids.begin(), " has the negative id ", *negative);
        auto const raw = std::as_bytes(ids);
        return held({raw.begin(), raw.end()}, 4, std::move(name));
    }

    std::size_t        size() const noexcept { return size_; }
    std::size_t        width() const noexcept { return width_; }         // bytes of a token
    bool               is_text() const noexcept { return width_ == 1; }  // ids are bytes
    std::string const& name() const noexcept { return source_->name; }

    std::int32_t operator[](std::size_t position) const {
        std::int32_t id = 0;
        copy(position, std::span(&id, 1));
        return id;
    }

    /// The ids from `begin` on, as many as `out` holds. An id beyond 2^31 - 1 is an input error, and so is one that is not below what
    /// `check_vocabulary` has found all to be below: the file has changed since.
    void copy(std::size_t begin, std::span<std::int32_t> out) const {
        require(begin <= size_ && out.size() <= size_ - begin, "data ", name(), ": expected a range within ", size_, " tokens, found ",
                begin, " to ", begin + out.size());
        std::uint32_t most = 0;
        for_blocks(begin, begin + out.size(), [&](std::size_t at, auto const& ids) {
            for (std::size_t i = 0; i < ids.size(); ++i) {
                out[at - begin + i] = static_cast<std::int32_t>(ids[i]);
                most                = std::max<std::uint32_t>(most, ids[i]);
            }
        });
        if (std::size_t const below = source_->below; most >= below) [[unlikely]] {
            slice(begin, begin + out.size()).check_ids(below);
            input_error("data ", name(), ": changes while it is read: an id of ", most, " was there, and is no longer");
        }
    }

    /// A number that changes with any byte and with the order of bytes. Reads everything once.
    std::uint64_t checksum() const {
        std::uint64_t sum = size_ * width_;
        for_blocks(0, size_, [&](std::size_t, auto const& ids) {
            auto const bytes = std::as_bytes(ids);
            for (std::size_t begin = 0; begin < bytes.size(); begin += sizeof(std::uint64_t)) {
                std::uint64_t word = 0;
                std::memcpy(&word, bytes.data() + begin, std::min(sizeof word, bytes.size() - begin));
                sum = (sum ^ word) * 0x9E3779B97F4A7C15u;
                sum ^= sum >> 32;
            }
        });
        return sum;
    }

    /// The tokens [begin, end).
    Tokens slice(std::size_t begin, std::size_t end) const {
        require(begin <= end && end <= size_, "data ", name(), ": expected a slice within ", size_, " tokens, found ", begin, " to ", end);
        Tokens part = *this;
        part.begin_ += begin * width_;
        part.offset_ += begin;
        part.size_ = end - begin;
        return part;
    }

    /// Every id must be below `vocabulary`; the error names file, position in it, and id. Reads everything once.
    void check_vocabulary(std::size_t vocabulary) const {
        if (width_ == 2 && vocabulary > 65536)
            input_error("data ", name(), ": expected 4-byte ids for a vocabulary of ", vocabulary,
                        ", found 2-byte ids, which end at 65535");
        if (source_->below <= vocabulary) return;
        check_ids(vocabulary);
        if (size_ == source_->tokens) source_->below = vocabulary;
    }

private:
    struct Part {
        std::size_t begin = 0;
        std::string name;
    };
    struct Source {
        std::string                      name;
        TokenFile                        file;
        BookedVector<std::byte>          owned;  // where there is no file
        std::vector<Part>                parts;
        std::size_t                      tokens = 0;
        mutable std::atomic<std::size_t> below{std::size_t{1} << 31};  // what all ids were found to be, when they were read as a whole
    };
    struct Place {
        std::size_t width = 1, begin = 0;  // bytes
    };

    Tokens(std::shared_ptr<Source> source, Place place, std::size_t bytes)
        : begin_(place.begin), width_(place.width), size_(bytes / place.width) {
        source->tokens = size_;
        source_        = std::move(source);
    }

    void check_ids(std::size_t vocabulary) const {
        std::optional<std::pair<std::size_t, std::uint32_t>> found;  // position and id
        for_blocks(0, size_, [&](std::size_t at, auto const& ids) {
            if (found) return;
            auto const    above = [&](std::uint32_t id) { return std::size_t{id} >= vocabulary; };
            std::uint32_t most  = 0;
            for (auto const id : ids) most = std::max<std::uint32_t>(most, id);
            if (!above(most)) return;
            auto const first = std::find_if(ids.begin(), ids.end(), above);
            found            = {at + static_cast<std::size_t>(first - ids.begin()), std::uint32_t{*first}};
        });
        if (!found) return;
        auto const [position, id] = *found;
        auto const& parts         = source_->parts;
        auto const  after         = std::upper_bound(parts.begin(), parts.end(), offset_ + position,
                                                     [](std::size_t p, Part const& part) { return p < part.begin; });
        auto const& [begin, file] = *std::prev(after);
        input_error("data ", file, ": expected ids below the vocabulary of ", vocabulary, ", found ", id, " at position ",
                    offset_ + position - begin);
    }

    template <class Check>
    static Tokens in_file(std::filesystem::path const& path, Check const& check) {
        auto source       = std::make_shared<Source>();
        source->name      = path.string();
        source->file      = TokenFile(path);
        source->parts     = {{0, path.string()}};
        Place const place = check(source->file);
        return Tokens(source, place, source->file.size() - place.begin);
    }

    static Tokens held(BookedVector<std::byte> memory, std::size_t width, std::string name) {
        auto source   = std::make_shared<Source>();
        source->parts = {{0, name}};
        source->name  = std::move(name);
        source->owned = std::move(memory);
        return Tokens(source, {width, 0}, source->owned.size());
    }

    /// Calls visit(position, ids) for the tokens [begin, end), block after block. // (at most block)
    template <class Visit>
    void for_blocks(std::size_t begin, std::size_t end, Visit const& visit) const {
        if (width_ == 1) return for_blocks_of<std::uint8_t>(begin, end, visit);
        if (width_ == 2) return for_blocks_of<std::uint16_t>(begin, end, visit);
        for_blocks_of<std::uint32_t>(begin, end, visit);
    }
    template <class Id, class Visit>
    void for_blocks_of(std::size_t begin, std::size_t end, Visit const& visit) const {
        std::array<Id, 16384 / sizeof(Id)> block;
        for (; begin < end; begin += block.size()) {
            std::span const   ids   = std::span(block).first(std::min(block.size(), end - begin));
            auto const        bytes = std::as_writable_bytes(ids);
            std::size_t const at    = begin_ + begin * sizeof(Id);
            if (source_->owned.empty())
                source_->file.read(at, bytes);
            else
                std::memcpy(bytes.data(), source_->owned.data() + at, bytes.size());
            visit(begin, std::span<Id const>(ids));
        }
    }

    std::shared_ptr<Source const> source_;
    std::size_t                   begin_  = 0;  // in the source, bytes
    std::size_t                   width_  = 1;
    std::size_t                   size_   = 0;
    std::size_t                   offset_ = 0;  // of the slice in its source, in tokens
};

/// A training part and the part that is held out for validation: the last `fraction` of the tokens.
struct Split {
    Tokens train, held_out;
};

inline Split hold_out(Tokens const& tokens, double fraction) {
    if (!(fraction >= 0 && fraction < 1)) input_error("held-out fraction: expected at least 0 and below 1, found ", fraction);
    auto const cut = static_cast<std::size_t>(static_cast<double>(tokens.size()) * (1.0 - fraction));
    return {tokens.slice(0, cut), tokens.slice(cut, tokens.size())};
}

}  // namespace lockstep::data
