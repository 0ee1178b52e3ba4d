#pragma once
// A checksum of elements and their places, on one thread. It adds up: the sum over parts is that of the whole, however it was cut.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace lockstep::kernel {

namespace detail {

inline constexpr std::uint64_t mix_step = 0x9E3779B97F4A7C15u;

constexpr std::uint64_t finalised(std::uint64_t z) noexcept {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

}  // namespace detail

/// A well-mixed function of an element's place and bits (the finaliser of SplitMix64; Steele, Lea, Flood 2014).
constexpr std::uint64_t mix64(std::uint64_t index, std::uint64_t bits) noexcept {
    return detail::finalised(bits + (index + 1) * detail::mix_step);
}

/// Sum modulo 2^64 of mix64(first + i, element i), where elements are unsigned integers of the width of `Word`.
template <class Word>
std::uint64_t mixed_sum(std::span<std::byte const> elements, std::uint64_t first) noexcept {
    std::uint64_t sum = 0, place = (first + 1) * detail::mix_step;
    for (std::size_t i = 0; i < elements.size() / sizeof(Word); ++i, place += detail::mix_step) {
        Word bits;
        std::memcpy(&bits, elements.data() + i * sizeof(Word), sizeof(Word));
        sum += detail::finalised(bits + place);
    }
    return sum;
}

/// The same for elements of 1, 2, 4 or 8 bytes.
inline std::uint64_t mixed_sum(std::size_t width, std::span<std::byte const> elements, std::uint64_t first) noexcept {
    switch (width) {
        case 8:
            return mixed_sum<std::uint64_t>(elements, first);
        case 4:
            return mixed_sum<std::uint32_t>(elements, first);
        case 2:
            return mixed_sum<std::uint16_t>(elements, first);
        default:
            return mixed_sum<std::uint8_t>(elements, first);
    }
}

}  // namespace lockstep::kernel
