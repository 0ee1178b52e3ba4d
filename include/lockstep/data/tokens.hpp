#pragma once
// A sequence of token ids, wherever it lies: mapped from a file or held in memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/core/assertion.hpp"
#include "lockstep/data/booked_vector.hpp"
#include "lockstep/data/mapped_file.hpp"
#include "lockstep/data/token_shard.hpp"

namespace lockstep::data {

/// Read-only and cheap to copy: slices share the memory of the whole. Positions are 64-bit.
class Tokens {
    template <class F>
    auto visit(F&& f) const {  // first: its return type is deduced
        if (width_ == 1) return f(reinterpret_cast<std::uint8_t const*>(data_));
        if (width_ == 2) return f(reinterpret_cast<std::uint16_t const*>(data_));
        return f(reinterpret_cast<std::uint32_t const*>(data_));
    }

public:
    /// `.bin` is an llm.c shard, anything else is text: one byte, one token.
    static Tokens open(std::filesystem::path const& path) { return path.extension() == ".bin" ? shard(path) : text(path); }

    static Tokens text(std::filesystem::path const& path) {
        return mapped(path, [](auto const&) { return Place{1, 0}; });
    }

    static Tokens shard(std::filesystem::path const& path) {
        return mapped(path, [&](std::span<std::byte const> file) { return Place{read_shard_header(path, file).width, shard_header}; });
    }

    /// Several files as one text, in the given order.
    static Tokens texts(std::span<std::filesystem::path const> paths, std::string name) {
        auto source  = std::make_shared<Source>();
        source->name = std::move(name);
        std::error_code failed;
        for (auto const& path : paths) {
            if (std::filesystem::is_regular_file(path, failed) && std::filesystem::file_size(path, failed) == 0) continue;
            source->parts.push_back({source->owned.size(), path.string()});
            MappedFile const file(path);
            source->owned.insert(source->owned.end(), file.bytes().begin(), file.bytes().end());
        }
        if (source->owned.empty()) input_error("data ", source->name, ": expected text, found nothing in ", paths.size(), " files");
        return Tokens(source, source->owned, 1);
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

    std::int32_t operator[](std::size_t position) const noexcept {
        return visit([&](auto const* ids) { return static_cast<std::int32_t>(ids[position]); });
    }

    /// The ids from `begin` on, as many as `out` holds. An id beyond 2^31 - 1 is an input error.
    void copy(std::size_t begin, std::span<std::int32_t> out) const {
        require(begin <= size_ && out.size() <= size_ - begin, "data ", name(), ": expected a range within ", size_, " tokens, found ",
                begin, " to ", begin + out.size());
        std::int32_t const sign = visit([&](auto const* ids) {
            std::int32_t signs = 0;
            for (std::size_t i = 0; i < out.size(); ++i) {
                out[i] = static_cast<std::int32_t>(ids[begin + i]);
                signs |= out[i];
            }
            return signs;
        });
        if (sign < 0) [[unlikely]]
            slice(begin, begin + out.size()).check_vocabulary(std::size_t{1} << 31);
    }

    /// The tokens [begin, end).
    Tokens slice(std::size_t begin, std::size_t end) const {
        require(begin <= end && end <= size_, "data ", name(), ": expected a slice within ", size_, " tokens, found ", begin, " to ", end);
        Tokens part = *this;
        part.data_ += begin * width_;
        part.offset_ += begin;
        part.size_ = end - begin;
        return part;
    }

    /// Every id must be below `vocabulary`; the error names file, position in it, and id. Reads everything once.
    void check_vocabulary(std::size_t vocabulary) const {
        if (width_ == 2 && vocabulary > 65536)
            input_error("data ", name(), ": expected 4-byte ids for a vocabulary of ", vocabulary,
                        ", found 2-byte ids, which end at 65535");
        std::size_t const position = visit([&](auto const* ids) {
            constexpr std::size_t block = 4096;
            for (std::size_t begin = 0; begin < size_; begin += block) {
                std::size_t const end   = std::min(size_, begin + block);
                auto              above = [&](auto id) { return std::size_t{id} >= vocabulary; };
                std::uint32_t     most  = 0;
                for (std::size_t i = begin; i < end; ++i) most = std::max<std::uint32_t>(most, ids[i]);
                if (above(most)) return static_cast<std::size_t>(std::find_if(ids + begin, ids + end, above) - ids);
            }
            return size_;
        });
        if (position == size_) return;
        auto const  id           = static_cast<std::uint32_t>((*this)[position]);
        auto const& parts        = source_->parts;
        auto const  after        = std::upper_bound(parts.begin(), parts.end(), offset_ + position,
                                                    [](std::size_t p, Part const& part) { return p < part.begin; });
        auto const [begin, file] = *std::prev(after);
        input_error("data ", file, ": expected ids below the vocabulary of ", vocabulary, ", found ", id, " at position ",
                    offset_ + position - begin);
    }

private:
    struct Part {
        std::size_t begin = 0;
        std::string name;
    };
    struct Source {
        std::string             name;
        MappedFile              file;
        BookedVector<std::byte> owned;
        std::vector<Part>       parts;
    };
    struct Place {
        std::size_t width = 1, begin = 0;  // bytes
    };

    Tokens(std::shared_ptr<Source const> source, std::span<std::byte const> body, std::size_t width)
        : source_(std::move(source)), data_(body.data()), width_(width), size_(body.size() / width) {}

    template <class Check>
    static Tokens mapped(std::filesystem::path const& path, Check const& check) {
        auto source       = std::make_shared<Source>();
        source->name      = path.string();
        source->file      = MappedFile(path);
        source->parts     = {{0, path.string()}};
        auto const  file  = source->file.bytes();
        Place const place = check(file);
        return Tokens(source, file.subspan(place.begin), place.width);
    }

    static Tokens held(BookedVector<std::byte> memory, std::size_t width, std::string name) {
        auto source   = std::make_shared<Source>();
        source->parts = {{0, name}};
        source->name  = std::move(name);
        source->owned = std::move(memory);
        return Tokens(source, source->owned, width);
    }

    std::shared_ptr<Source const> source_;
    std::byte const*              data_   = nullptr;
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
