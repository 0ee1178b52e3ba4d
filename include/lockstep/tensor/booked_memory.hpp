#pragma once
// Raw memory that books itself in the ledger: aligned, on huge pages where it is large.

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/observe/out_of_memory.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define LOCKSTEP_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LOCKSTEP_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(LOCKSTEP_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace lockstep::tensor {

/// AddressSanitizer, where it watches, reports who touches memory that is forbidden: views of tensors that have been given back.
inline void forbid([[maybe_unused]] std::byte const* data, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(LOCKSTEP_ADDRESS_SANITIZER)
    __asan_poison_memory_region(data, bytes);
#endif
}
inline void allow([[maybe_unused]] std::byte const* data, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(LOCKSTEP_ADDRESS_SANITIZER)
    __asan_unpoison_memory_region(data, bytes);
#endif
}

/// From here on memory comes in pages of its own, and asks for huge ones.
inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Aligned to a cache line, uninitialised.
inline std::byte* allocate_booked(std::size_t bytes, observe::Category category) {
    auto* const data = static_cast<std::byte*>(std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
    if (data == nullptr) throw observe::OutOfMemory(category, bytes);
    observe::ledger().add(category, bytes);
    return data;
}

/// Not inlined: where it is, g++ 12 with a sanitizer takes the arithmetic of xtensor's destructors for a use after free.
[[gnu::noinline]] inline void free_booked(std::byte* data, std::size_t bytes, observe::Category category) noexcept {
    std::free(data);
    observe::ledger().remove(category, bytes);
}

/// Allocator of containers that books every allocation, under `Default` where nothing else is said.
template <class T, observe::Category Default = observe::Category::scratch>
struct BookedAllocator {
    using value_type                             = T;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap            = std::true_type;
    template <class U>
    struct rebind {
        using other = BookedAllocator<U, Default>;
    };

    observe::Category category = Default;

    BookedAllocator() = default;
    explicit BookedAllocator(observe::Category booked) : category(booked) {}
    template <class U>
    explicit BookedAllocator(BookedAllocator<U, Default> const& other) : category(other.category) {}

    T* allocate(std::size_t count) {
        if (count > static_cast<std::size_t>(-1) / 2 / sizeof(T)) throw std::bad_array_new_length();
        return reinterpret_cast<T*>(allocate_booked(count * sizeof(T), category));
    }
    void deallocate(T* data, std::size_t count) noexcept {
        if (data != nullptr) free_booked(reinterpret_cast<std::byte*>(data), count * sizeof(T), category);
    }
    template <class U>
    bool operator==(BookedAllocator<U, Default> const& other) const noexcept {
        return category == other.category;
    }
};

/// A zero-filled block of its own; large ones are mapped and advised to use huge pages.
class BookedBlock {
public:
    BookedBlock() = default;
    BookedBlock(std::size_t bytes, observe::Category category) : size_(bytes), category_(category) {
        if (bytes == 0) return;
        if (mapped()) {
            void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (data == MAP_FAILED) throw observe::OutOfMemory(category, bytes);
            data_ = static_cast<std::byte*>(data);
            ::madvise(data_, size_, MADV_HUGEPAGE);  // advice: where it is refused, small pages do
            observe::ledger().add(category_, size_);
        } else {
            data_ = allocate_booked(size_, category_);
            std::memset(data_, 0, size_);
        }
    }
    BookedBlock(BookedBlock&& other) noexcept { swap(other); }
    BookedBlock& operator=(BookedBlock&& other) noexcept {
        BookedBlock moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~BookedBlock() {
        if (data_ == nullptr) return;
        allow(data_, size_);
        if (mapped()) {
            ::munmap(data_, size_);
            observe::ledger().remove(category_, size_);
        } else {
            free_booked(data_, size_, category_);
        }
    }

    std::byte*  data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

private:
    bool mapped() const noexcept { return size_ >= huge_page; }
    void swap(BookedBlock& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(category_, other.category_);
    }

    std::byte*        data_     = nullptr;
    std::size_t       size_     = 0;
    observe::Category category_ = observe::Category::scratch;
};

}  // namespace lockstep::tensor
