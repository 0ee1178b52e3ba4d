#include "lockstep/precision/bfloat16.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "rounding.hpp"

namespace bfloat16_test {

using lockstep::precision::bfloat16;

TEST_CASE("all 65536 patterns come back from float as they were") {
    int wrong = 0;
    for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
        bfloat16 const value = bfloat16::from_bits(static_cast<std::uint16_t>(pattern));
        bfloat16 const again = bfloat16(static_cast<float>(value));
        if (std::isnan(static_cast<float>(value)))
            wrong += !std::isnan(static_cast<float>(again)) || (again.bits & ~0x40u) != (pattern & ~0x40u);  // made quiet, payload kept
        else
            wrong += again.bits != pattern;
    }
    CHECK(wrong == 0);
}

TEST_CASE("conversion rounds to nearest even, as the definition says") {
    int wrong = 0;
    for_each_telling_float([&](float value) {
        float const result = bfloat16(value);
        if (std::isnan(value))
            wrong += !std::isnan(result) || std::signbit(result) != std::signbit(value);
        else
            wrong += std::bit_cast<std::uint32_t>(result) != std::bit_cast<std::uint32_t>(static_cast<float>(rounded(value, 8, -126, 128)));
    });
    CHECK(wrong == 0);
}

TEST_CASE("TRAPS 14: ties go to even, overflow is infinite, NaN stays NaN") {
    CHECK(float(bfloat16(1.00390625f)) == 1.0f);
    CHECK(float(bfloat16(1.01171875f)) == 1.015625f);
    CHECK(float(bfloat16(3.3961776e38f)) == std::numeric_limits<float>::infinity());
    CHECK(std::isnan(float(bfloat16(std::bit_cast<float>(0x7FFFFFFFu)))));
    CHECK(std::isnan(float(bfloat16(std::bit_cast<float>(0xFF800001u)))));
    CHECK(float(bfloat16(-std::numeric_limits<float>::infinity())) == -std::numeric_limits<float>::infinity());
}

TEST_CASE("conversion is known at compile time") {
    static_assert(bfloat16(1.0f).bits == 0x3F80);
    static_assert(float(bfloat16::from_bits(0xC000)) == -2.0f);
    CHECK(sizeof(bfloat16) == 2);
}

TEST_CASE("TRAPS 13: stochastic rounding of 1 + 2^-10 goes up exactly 8192 times over all 65536 low halves") {
    int up = 0, other = 0, up_below = 0;
    for (std::uint32_t low = 0; low < 65536; ++low) {
        float const result = bfloat16::round_stochastic(1 + 0x1p-10f, low | 0xABCD0000u);  // the upper half of the random bits is not used
        up += result == 1 + 0x1p-7f;
        other += result != 1 + 0x1p-7f && result != 1;
        up_below += float(bfloat16::round_stochastic(-1 - 0x1p-10f, low)) == -1 - 0x1p-7f;  // away from zero, as often
    }
    CHECK(up == 8192);
    CHECK(other == 0);
    CHECK(up_below == 8192);
}

TEST_CASE("stochastic rounding keeps what is a bfloat16 already, infinities and NaN") {
    int wrong = 0;
    for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
        bfloat16 const value = bfloat16::from_bits(static_cast<std::uint16_t>(pattern));
        if (std::isnan(float(value)))
            wrong += !std::isnan(float(bfloat16::round_stochastic(value, 0xFFFF)));
        else
            wrong += bfloat16::round_stochastic(value, 0xFFFF).bits != pattern;
    }
    CHECK(wrong == 0);
    CHECK(std::isnan(float(bfloat16::round_stochastic(std::bit_cast<float>(0x7F800001u), 0))));
    float const most = bfloat16::from_bits(0x7F7F);
    CHECK(float(bfloat16::round_stochastic(std::nextafter(most, 0.0f), 0xFFFF)) == most);
}

}  // namespace bfloat16_test
