#pragma once
// A vector whose memory is booked in the ledger under `data`.

#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/observe/ledger.hpp"

namespace lockstep::data {

template <class T>
struct BookedAllocator {
    using value_type = T;

    BookedAllocator() = default;
    template <class U>
    constexpr BookedAllocator(BookedAllocator<U> const&) noexcept {}

    T* allocate(std::size_t count) {
        T* const memory = std::allocator<T>{}.allocate(count);
        observe::ledger().add(observe::Category::data, count * sizeof(T));
        return memory;
    }
    void deallocate(T* memory, std::size_t count) noexcept {
        observe::ledger().remove(observe::Category::data, count * sizeof(T));
        std::allocator<T>{}.deallocate(memory, count);
    }
    constexpr bool operator==(BookedAllocator const&) const noexcept { return true; }
};

template <class T>
using BookedVector = std::vector<T, BookedAllocator<T>>;

}  // namespace lockstep::data
