#pragma once
// Sums of doubles without any rounding until they are read: a fixed-point number wide enough for all of them (Kulisch 1971).
// Adding is associative, so a sum does not depend on how its terms were split over ranks, threads or micro-steps.

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace lockstep {

/// Holds the sum of up to 2^30 finite doubles exactly. Limbs of 32 bits in 64-bit words: two sums add word by word,
/// so an integer sum over the ranks is all that a reduction needs. NaN and infinity are counted, and make the value NaN.
class ExactSum {
public:
    static constexpr std::size_t words = 68;  // 67 limbs of 32 bits (2^-1074 .. 2^1070), then the count of non-finite terms

    constexpr ExactSum() = default;
    explicit ExactSum(std::span<std::int64_t const, words> limbs) {
        for (std::size_t i = 0; i < words; ++i) limbs_[i] = limbs[i];
    }

    ExactSum& operator+=(double term) noexcept {
        auto const bits     = std::bit_cast<std::uint64_t>(term);
        int const  exponent = static_cast<int>(bits >> 52 & 0x7FF);
        if (exponent == 0x7FF) {
            ++limbs_[words - 1];
            return *this;
        }
        std::uint64_t const mantissa = (bits & 0xFFFFFFFFFFFFFu) | (exponent != 0 ? std::uint64_t{1} << 52 : 0);
        int const           shift    = exponent == 0 ? 0 : exponent - 1;  // value = mantissa * 2^(shift - 1074)
        std::size_t const   limb     = static_cast<std::size_t>(shift / 32);
        auto const          wide     = static_cast<Wide>(mantissa) << (shift % 32);
        std::int64_t const  sign     = bits >> 63 ? -1 : 1;
        for (std::size_t i = 0; i < 3; ++i)
            limbs_[limb + i] += sign * static_cast<std::int64_t>(static_cast<std::uint32_t>(wide >> (32 * i)));
        if (++pending_ == 1 << 30) carry();
        return *this;
    }

    ExactSum& operator+=(ExactSum other) noexcept {
        other.carry();
        carry();
        for (std::size_t i = 0; i < words; ++i) limbs_[i] += other.limbs_[i];
        return *this;
    }

    /// The words to add over ranks, carried so that 2^30 ranks cannot overflow them.
    std::span<std::int64_t const, words> limbs() noexcept {
        carry();
        return limbs_;
    }

    bool finite() const noexcept { return limbs_[words - 1] == 0; }

    /// The sum, rounded; NaN if a term was not finite.
    double value() const noexcept {
        if (!finite()) return std::numeric_limits<double>::quiet_NaN();
        ExactSum sum = *this;
        sum.carry();
        double const sign = sum.limbs_[words - 2] < 0 ? -1.0 : 1.0;
        if (sign < 0) {
            for (std::size_t i = 0; i < words - 1; ++i) sum.limbs_[i] = -sum.limbs_[i];
            sum.carry();
        }
        double result = 0;
        for (std::size_t i = words - 1; i-- > 0;) result += std::ldexp(static_cast<double>(sum.limbs_[i]), static_cast<int>(32 * i) - 1074);
        return sign * result;
    }

private:
    __extension__ using Wide = unsigned __int128;

    void carry() noexcept {
        for (std::size_t i = 0; i + 2 < words; ++i) {
            std::int64_t const over = limbs_[i] >> 32;  // floor
            limbs_[i] -= over * (std::int64_t{1} << 32);
            limbs_[i + 1] += over;
        }
        pending_ = 0;
    }

    std::array<std::int64_t, words> limbs_{};
    int                             pending_ = 0;
};

}  // namespace lockstep
