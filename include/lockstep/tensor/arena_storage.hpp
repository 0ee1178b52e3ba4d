#pragma once
// Storage in arenas on huge pages: once a step has run, the next ones allocate nothing.

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "lockstep/tensor/booked_memory.hpp"
#include "lockstep/tensor/storage.hpp"

namespace lockstep::tensor {

struct ArenaStorage {
    template <class T>
    class Buffer {
    public:
        Buffer() = default;
        Buffer(std::size_t count, observe::Category category) : block_(count * sizeof(T), category) {}
        std::span<T> span() const noexcept { return {reinterpret_cast<T*>(block_.data()), block_.size() / sizeof(T)}; }

    private:
        BookedBlock block_;
    };

    /// Tensors lie one after another in a few large blocks. Blocks are never given back, so growth ends with the largest step.
    class Workspace {
    public:
        struct Mark {
            std::size_t block = 0;
            std::size_t used  = 0;
        };

        template <class T, std::size_t Rank>
        View<T, Rank> take(std::array<std::size_t, Rank> extents) {
            std::size_t bytes = sizeof(T);
            for (std::size_t extent : extents) bytes *= extent;
            return {reinterpret_cast<T*>(take_bytes(bytes)), extents};
        }

        Mark mark() const noexcept { return top_; }
        void rewind(Mark mark) noexcept {
            forbid_between(mark, top_);
            top_ = mark;
        }

        /// Bytes of the blocks that small tensors of so many bytes fill.
        static constexpr std::size_t held_for(std::size_t bytes) noexcept {
            std::size_t held = 0;
            for (std::size_t block = 0; held < bytes; held += block) block = next_block(block, 1);
            return held;
        }

        template <class T, std::size_t Rank>
        View<T, Rank> keep(Mark mark, View<T, Rank> view) {
            std::size_t elements = view.size() == 0 ? 0 : 1;  // from the first to the last, with the gaps between rows
            for (std::size_t d = 0; elements != 0 && d < Rank; ++d) elements += (view.extent(d) - 1) * view.stride(d);
            Mark const before = std::exchange(top_, mark);
            T* const   kept   = take<T, 1>({elements}).data();
            if (elements != 0) std::memmove(kept, view.data(), elements * sizeof(T));
            forbid_between(top_, before);
            return {kept, view.extents(), view.strides()};
        }

        /// Bytes up to the top, gaps at the ends of blocks included.
        std::size_t in_use() const noexcept {
            std::size_t bytes = top_.used;
            for (std::size_t b = 0; b < top_.block; ++b) bytes += blocks_[b].size();
            return bytes;
        }

        /// Bytes of all blocks.
        std::size_t held() const noexcept {
            std::size_t bytes = 0;
            for (BookedBlock const& block : blocks_) bytes += block.size();
            return bytes;
        }

    private:
        /// The size of the block behind one of `last` bytes, 0 for the first: doubling keeps blocks few.
        static constexpr std::size_t next_block(std::size_t last, std::size_t bytes) noexcept {
            std::size_t const wanted = last == 0 ? huge_page : std::min(2 * last, 32 * huge_page);
            return std::max((bytes + huge_page - 1) / huge_page * huge_page, wanted);
        }

        void forbid_between(Mark begin, Mark end) const noexcept {
            for (std::size_t b = begin.block; b < blocks_.size() && b <= end.block; ++b) {
                std::size_t const from = b == begin.block ? begin.used : 0, to = b == end.block ? end.used : blocks_[b].size();
                if (from < to) forbid(blocks_[b].data() + from, to - from);
            }
        }

        std::byte* take_bytes(std::size_t bytes) {
            bytes = (bytes + alignment - 1) / alignment * alignment;
            while (top_.block < blocks_.size() && top_.used + bytes > blocks_[top_.block].size()) top_ = {top_.block + 1, 0};
            if (top_.block == blocks_.size())
                blocks_.emplace_back(next_block(blocks_.empty() ? 0 : blocks_.back().size(), bytes), observe::Category::activations);
            std::byte* const data = blocks_[top_.block].data() + top_.used;
            top_.used += bytes;
            allow(data, bytes);
            return data;
        }

        std::vector<BookedBlock> blocks_;
        Mark                     top_;
    };
};
static_assert(storage<ArenaStorage>);

}  // namespace lockstep::tensor
