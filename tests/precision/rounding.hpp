#pragma once
// Rounding to a small floating-point format by its definition, in double: the reference of the bit tricks.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

/// The nearest value with `digits` bits of mantissa (the hidden one counts), ties to even; subnormals below 2^least, infinity from 2^end
/// on.
inline double rounded(double value, int digits, int least, int end) {
    if (!std::isfinite(value) || value == 0) return value;
    int const    exponent = std::max(std::ilogb(value), least);
    double const quantum  = std::ldexp(1.0, exponent - digits + 1);
    double const result   = std::nearbyint(value / quantum) * quantum;  // both exact; the default mode rounds ties to even
    return std::abs(result) >= std::ldexp(1.0, end) ? std::copysign(std::numeric_limits<double>::infinity(), value) : result;
}

/// Calls f with floats that matter: for every upper half, lower halves at and around each place where rounding may tip.
template <class F>
void for_each_telling_float(F const& f) {
    for (std::uint32_t upper = 0; upper < 65536; ++upper) {
        for (std::uint32_t lower : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu, 0x2000u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u,
                                    0xefffu, 0xf000u, 0xf001u, 0xffffu, upper * 40503u & 0xffffu})
            f(std::bit_cast<float>(upper << 16 | lower));
    }
}
