#include "lockstep/precision/float16.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "rounding.hpp"

namespace float16_test {

using lockstep::precision::float16;

TEST_CASE("all 65536 patterns are the numbers that IEEE 754 says, and come back from float as they were") {
    int wrong = 0;
    for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
        float16 const value    = float16::from_bits(static_cast<std::uint16_t>(pattern));
        float const   number   = value;
        int const     exponent = static_cast<int>(pattern >> 10 & 31u);
        int const     mantissa = static_cast<int>(pattern & 1023u);
        double const  sign     = pattern & 0x8000u ? -1 : 1;
        if (exponent == 31 && mantissa != 0) {
            wrong += !std::isnan(number) || std::signbit(number) != (sign < 0) || !std::isnan(float(float16(number)));
            continue;
        }
        double const expected = exponent == 31  ? sign * std::numeric_limits<double>::infinity()
                                : exponent == 0 ? sign * std::ldexp(mantissa, -24)
                                                : sign * std::ldexp(1024 + mantissa, exponent - 25);
        wrong += number != expected || std::signbit(number) != (sign < 0) || float16(number).bits != pattern;
    }
    CHECK(wrong == 0);
}

TEST_CASE("conversion rounds to nearest even, as the definition says") {
    int wrong = 0;
    for_each_telling_float([&](float value) {
        float const result = float16(value);
        if (std::isnan(value))
            wrong += !std::isnan(result) || std::signbit(result) != std::signbit(value);
        else
            wrong += std::bit_cast<std::uint32_t>(result) != std::bit_cast<std::uint32_t>(static_cast<float>(rounded(value, 11, -14, 16)));
    });
    CHECK(wrong == 0);
}

/// How often value rounds to a float16 whose magnitude is above it, over all patterns of the lower 16 random bits; and to others than the
/// two neighbours.
std::pair<int, int> ups_and_others(float value, float below, float above) {
    int up = 0, other = 0;
    for (std::uint32_t low = 0; low < 65536; ++low) {
        float const result = float16::round_stochastic(value, low);
        up += result == above;
        other += result != above && result != below;
    }
    return {up, other};
}

TEST_CASE("stochastic rounding goes up as often as the part cut off is large, of normal and subnormal numbers") {
    using Count = std::pair<int, int>;
    CHECK(ups_and_others(1 + 0x1p-12f, 1, 1 + 0x1p-10f) == Count{16384, 0});
    CHECK(ups_and_others(-1 - 0x3p-12f, -1, -1 - 0x1p-10f) == Count{49152, 0});
    CHECK(ups_and_others(0x1p-24f * 2.25f, 0x2p-24f, 0x3p-24f) == Count{0, 0});  // of 22 bits, the lower 16 say nothing here
    int up = 0;
    for (std::uint32_t high = 0; high < 1024; ++high) up += float(float16::round_stochastic(0x1p-24f * 2.25f, high << 12 | 7)) == 0x3p-24f;
    CHECK(up == 256);
    up = 0;
    for (std::uint32_t high = 0; high < 65536; ++high) up += float(float16::round_stochastic(0x1p-34f, high << 16)) == 0x1p-24f;
    CHECK(up == 64);  // one in 1024
    CHECK(float(float16::round_stochastic(0x1p-149f, 0xFFFFFFFFu)) == 0);
    CHECK(float(float16::round_stochastic(65519.0f, 0)) == 65504);
    CHECK(float(float16::round_stochastic(65519.0f, 0x1FFF)) == std::numeric_limits<float>::infinity());
    CHECK(float(float16::round_stochastic(-1e30f, 0)) == -std::numeric_limits<float>::infinity());
}

TEST_CASE("stochastic rounding keeps what is a float16 already, infinities and NaN") {
    int wrong = 0;
    for (std::uint32_t pattern = 0; pattern < 65536; ++pattern)
        for (std::uint32_t random : {0u, 0x1FFFu, 0xFFFFFFFFu}) {
            float16 const value = float16::from_bits(static_cast<std::uint16_t>(pattern));
            if (std::isnan(float(value)))
                wrong += !std::isnan(float(float16::round_stochastic(value, random)));
            else
                wrong += float16::round_stochastic(value, random).bits != pattern;
        }
    CHECK(wrong == 0);
}

TEST_CASE("the limits of the format") {
    CHECK(float(float16(65504.0f)) == 65504.0f);
    CHECK(float(float16(65519.996f)) == 65504.0f);
    CHECK(float(float16(65520.0f)) == std::numeric_limits<float>::infinity());
    CHECK(float(float16(-1e30f)) == -std::numeric_limits<float>::infinity());
    CHECK(float(float16(0x1p-24f)) == 0x1p-24f);
    CHECK(float(float16(0x1p-25f)) == 0.0f);             // a tie, to even
    CHECK(float(float16(0x1.000002p-25f)) == 0x1p-24f);  // just above
    CHECK(std::signbit(float(float16(-1e-30f))));
    static_assert(float16(1.0f).bits == 0x3C00);
}

}  // namespace float16_test
