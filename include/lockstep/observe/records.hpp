#pragma once
// Records that were copied from the timeline, in memory that the ledger knows.

#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/observe/event.hpp"
#include "lockstep/observe/ledger.hpp"

namespace lockstep::observe {

/// What std::allocator does, booked.
template <class T, Category category = Category::scratch>
struct LedgerAllocator {
    using value_type = T;

    template <class U>
    struct rebind {
        using other = LedgerAllocator<U, category>;
    };

    LedgerAllocator() = default;
    template <class U>
    LedgerAllocator(LedgerAllocator<U, category> const&) noexcept {}

    T* allocate(std::size_t count) {
        T* const memory = std::allocator<T>().allocate(count);
        ledger().add(category, count * sizeof(T));
        return memory;
    }
    void deallocate(T* memory, std::size_t count) noexcept {
        ledger().remove(category, count * sizeof(T));
        std::allocator<T>().deallocate(memory, count);
    }

    template <class U>
    bool operator==(LedgerAllocator<U, category> const&) const noexcept {
        return true;
    }
};

using Records = std::vector<Record, LedgerAllocator<Record>>;

}  // namespace lockstep::observe
