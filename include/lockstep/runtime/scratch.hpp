#pragma once
// Scratch memory of a thread: a stack that grows during the first step and is then free of allocations.

#include <cstddef>
#include <cstdlib>
#include <span>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/observe/out_of_memory.hpp"

namespace lockstep::runtime {

/// Blocks of memory for the kernels that run on this thread. Taken in a `ScratchFrame`, given back at its end.
class ScratchStack {
public:
    static ScratchStack& of_this_thread() {
        thread_local ScratchStack stack;
        return stack;
    }
    ScratchStack()                               = default;
    ScratchStack(ScratchStack const&)            = delete;
    ScratchStack& operator=(ScratchStack const&) = delete;
    ~ScratchStack() {
        for (Block const& block : blocks_) {
            std::free(block.data);
            observe::ledger().remove(observe::Category::scratch, block.size);
        }
    }

    static constexpr std::size_t least = std::size_t{1} << 20;  // bytes of a block

    struct Mark {
        std::size_t block = 0;
        std::size_t used  = 0;
    };
    Mark mark() const noexcept { return top_; }
    void rewind(Mark mark) noexcept { top_ = mark; }

    std::byte* take(std::size_t bytes) {
        bytes = (bytes + alignment - 1) / alignment * alignment;
        while (top_.block < blocks_.size() && top_.used + bytes > blocks_[top_.block].size) top_ = {top_.block + 1, 0};
        if (top_.block == blocks_.size()) grow(bytes);
        std::byte* const data = blocks_[top_.block].data + top_.used;
        top_.used += bytes;
        return data;
    }

private:
    struct Block {
        std::byte*  data;
        std::size_t size;
    };

    void grow(std::size_t bytes) {
        std::size_t const size = (bytes + least - 1) / least * least;
        auto* const       data = static_cast<std::byte*>(std::aligned_alloc(4096, size));
        if (data == nullptr) throw observe::OutOfMemory(observe::Category::scratch, size);
        blocks_.push_back({data, size});
        observe::ledger().add(observe::Category::scratch, size);
    }

    std::vector<Block> blocks_;
    Mark               top_;
};

/// Scratch of one kernel call on one thread. Frames nest.
class ScratchFrame {
public:
    ScratchFrame() : stack_(ScratchStack::of_this_thread()), mark_(stack_.mark()) {}
    ScratchFrame(ScratchFrame const&)            = delete;
    ScratchFrame& operator=(ScratchFrame const&) = delete;
    ~ScratchFrame() { stack_.rewind(mark_); }

    /// Uninitialised, aligned to a cache line.
    template <class T>
    std::span<T> take(std::size_t count) {
        return {reinterpret_cast<T*>(stack_.take(count * sizeof(T))), count};
    }

private:
    ScratchStack&      stack_;
    ScratchStack::Mark mark_;
};

}  // namespace lockstep::runtime
