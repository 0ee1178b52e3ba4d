#pragma once
// Bytes on their way past the page cache, which the system takes in whole blocks only.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "lockstep/tensor/booked_memory.hpp"

namespace lockstep::io::detail {

/// Gathers bytes that follow each other in a file. They lie as far from a block's begin as in the file.
class BlockBuffer {
public:
    static constexpr std::uint64_t block = 4096;  // bytes; of offsets, lengths and addresses, as open(2) has it for O_DIRECT
    static constexpr std::size_t   room  = std::size_t{4} << 20;  // bytes; pieces of 1 MB take a tenth to half more of a processor

    struct Part {
        std::uint64_t              offset = 0;
        std::span<std::byte const> bytes;
    };

    /// Takes the first of these bytes, and says how many: none where it is full, or where they do not follow what it holds.
    std::size_t take(std::uint64_t offset, std::span<std::byte const> bytes) noexcept {
        if (begin_ == end_) begin_ = end_ = offset;
        if (offset != end_) return 0;
        std::size_t const count = std::min(bytes.size(), room - place(end_));
        if (count > 0) std::memcpy(memory_.data() + place(end_), bytes.data(), count);
        end_ += count;
        return count;
    }

    /// What it holds: before the first block, whole blocks, after the last.
    std::array<Part, 3> parts() const noexcept {
        std::uint64_t const first = std::min((begin_ + block - 1) / block * block, end_);
        std::uint64_t const last  = std::max(first, end_ / block * block);
        return {part(begin_, first), part(first, last), part(last, end_)};
    }
    void clear() noexcept { begin_ = end_; }

private:
    std::size_t place(std::uint64_t offset) const noexcept { return static_cast<std::size_t>(offset - begin_ / block * block); }
    Part        part(std::uint64_t from, std::uint64_t to) const noexcept {
               return {from, {memory_.data() + place(from), static_cast<std::size_t>(to - from)}};
    }

    tensor::BookedBlock memory_{room, observe::Category::scratch};
    std::uint64_t       begin_ = 0, end_ = 0;
};

}  // namespace lockstep::io::detail
