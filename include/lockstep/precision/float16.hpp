#pragma once
// float16: IEEE binary16. 11 bits of mantissa, finite up to 65504, subnormals down to 2^-24.

#include <bit>
#include <cstdint>

namespace lockstep::precision {

struct float16 {
    std::uint16_t bits = 0;

    float16() = default;

    /// Rounds to nearest even; NaN stays NaN (quiet, sign kept), infinities stay; from 65520 on it is infinity.
    constexpr explicit float16(float value) noexcept {
        auto const          u    = std::bit_cast<std::uint32_t>(value);
        std::uint32_t const sign = u >> 16 & 0x8000u;
        std::uint32_t const a    = u & 0x7FFFFFFFu;
        std::uint32_t       h    = 0;
        if (a > 0x7F800000u)
            h = 0x7E00u | (a >> 13 & 0x3FFu);
        else if (a >= 0x47800000u)  // 65536 and above
            h = 0x7C00u;
        else if (a >= 0x38800000u)  // normal: the rounding may carry into the exponent, up to infinity
            h = (a - 0x38000000u + 0xFFFu + (a >> 13 & 1u)) >> 13;
        else  // subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits
            h = std::bit_cast<std::uint32_t>(std::bit_cast<float>(a) + 0.5f) - 0x3F000000u;
        bits = static_cast<std::uint16_t>(sign | h);
    }

    constexpr operator float() const noexcept {
        std::uint32_t const sign = std::uint32_t{bits} << 16 & 0x80000000u;
        std::uint32_t const a    = bits & 0x7FFFu;
        std::uint32_t       u    = 0;
        if (a >= 0x7C00u)
            u = 0x7F800000u | (a & 0x3FFu) << 13;
        else if (a >= 0x0400u)
            u = (a << 13) + 0x38000000u;
        else  // subnormal: a * 2^-24
            u = std::bit_cast<std::uint32_t>(static_cast<float>(a) * 0x1p-24f);
        return std::bit_cast<float>(sign | u);
    }

    static constexpr float16 from_bits(std::uint16_t bits) noexcept {
        float16 result;
        result.bits = bits;
        return result;
    }

    /// Rounds away from zero with a probability equal to the part cut off: `random` is uniform over 32 bits, of which 13 are used, or as
    /// many as a subnormal loses. NaN and infinity stay; a finite value may round to infinity only beyond the largest float16.
    static constexpr float16 round_stochastic(float value, std::uint32_t random) noexcept {
        auto const          u    = std::bit_cast<std::uint32_t>(value);
        std::uint32_t const sign = u >> 16 & 0x8000u;
        std::uint32_t const a    = u & 0x7FFFFFFFu;
        if (a >= 0x7F800000u) return float16(value);
        if (a >= 0x38800000u) {  // normal
            std::uint32_t const h = a >= 0x47800000u ? 0x7C00u : (a - 0x38000000u + (random & 0x1FFFu)) >> 13;
            return from_bits(static_cast<std::uint16_t>(sign | h));
        }
        std::uint32_t const exponent = a >> 23 == 0 ? 1 : a >> 23;  // value = fraction * 2^-24 / 2^lost
        std::uint64_t       fraction = (a & 0x7FFFFFu) | (a >> 23 == 0 ? 0u : 0x800000u);
        std::uint32_t       lost     = 126 - exponent;
        if (lost > 32) fraction >>= lost - 32 > 63 ? 63 : lost - 32, lost = 32;  // beyond what `random` can tell
        std::uint64_t const h = (fraction + (random & ((std::uint64_t{1} << lost) - 1))) >> lost;
        return from_bits(static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(h)));
    }
};
static_assert(sizeof(float16) == 2);

}  // namespace lockstep::precision
