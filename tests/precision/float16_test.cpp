#include "lockstep/precision/float16.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

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
