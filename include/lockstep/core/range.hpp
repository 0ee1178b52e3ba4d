#pragma once
// A part of something that lies in a row.

#include <cstddef>

namespace lockstep {

/// Half-open range of elements.
struct Range {
    std::size_t begin = 0;
    std::size_t end   = 0;

    constexpr std::size_t size() const noexcept { return end - begin; }
    constexpr bool        empty() const noexcept { return begin == end; }
    constexpr bool        operator==(Range const&) const = default;
};

constexpr Range intersect(Range a, Range b) noexcept {
    std::size_t const begin = a.begin > b.begin ? a.begin : b.begin;
    std::size_t const end   = a.end < b.end ? a.end : b.end;
    return {begin, end > begin ? end : begin};
}

}  // namespace lockstep
