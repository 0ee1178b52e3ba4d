#pragma once
// bfloat16: the upper half of a float. 8 bits of mantissa, the exponent range of float.

#include <bit>
#include <cstdint>

namespace lockstep::precision {

struct bfloat16 {
    std::uint16_t bits = 0;

    bfloat16() = default;

    /// Rounds to nearest even; NaN stays NaN (quiet, sign kept), infinities stay.
    constexpr explicit bfloat16(float value) noexcept {
        auto const u = std::bit_cast<std::uint32_t>(value);
        if ((u & 0x7FFFFFFFu) > 0x7F800000u)
            bits = static_cast<std::uint16_t>(u >> 16 | 0x40u);
        else
            bits = static_cast<std::uint16_t>((u + 0x7FFFu + (u >> 16 & 1u)) >> 16);
    }

    constexpr operator float() const noexcept { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

    static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept {
        bfloat16 result;
        result.bits = bits;
        return result;
    }

    /// Rounds away from zero with a probability equal to the part cut off: `random` is uniform over 32 bits, of which 16 are used.
    /// NaN and infinity stay; a finite value may round to infinity only beyond the largest bfloat16.
    static constexpr bfloat16 round_stochastic(float value, std::uint32_t random) noexcept {
        auto const u = std::bit_cast<std::uint32_t>(value);
        if ((u & 0x7F800000u) == 0x7F800000u) return bfloat16(value);
        return from_bits(static_cast<std::uint16_t>((u + (random & 0xFFFFu)) >> 16));
    }
};
static_assert(sizeof(bfloat16) == 2);

}  // namespace lockstep::precision
