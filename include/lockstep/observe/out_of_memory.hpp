#pragma once
// The error of memory that cannot be had: it says for what, and how much there is already.

#include <array>
#include <cstdio>
#include <new>

#include "lockstep/observe/ledger.hpp"

namespace lockstep::observe {

/// Raised by every buffer that books itself in the ledger. Making it allocates nothing.
class OutOfMemory : public std::bad_alloc {
public:
    OutOfMemory(Category category, std::size_t bytes) noexcept {
        std::snprintf(text_.data(), text_.size(), "memory ran out: expected %zu bytes more for %s, beside %zu bytes that are held", bytes,
                      name(category).data(), ledger().total().now.load());
    }
    char const* what() const noexcept override { return text_.data(); }

private:
    std::array<char, 160> text_{};
};

}  // namespace lockstep::observe
