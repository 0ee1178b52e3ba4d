#pragma once
// Sums of squares that do not depend on how a buffer was split: each granule is summed in one fixed way, the granules exactly.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "lockstep/core/assertion.hpp"
#include "lockstep/core/exact_sum.hpp"
#include "lockstep/precision/mixed.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/runtime/scratch.hpp"

namespace lockstep::kernel {

namespace detail {

/// Sum of squares in double: 16 lanes, then a tree. The squares of floats are exact.
template <class T>
double granule_squares(T const* values, std::size_t count) noexcept {
    constexpr std::size_t     lanes = 16;
    std::array<double, lanes> sums{};
    std::size_t               i = 0;
    for (; i + lanes <= count; i += lanes)
        for (std::size_t l = 0; l < lanes; ++l) {
            double const value = static_cast<precision::accumulator<T>>(values[i + l]);
            sums[l] += value * value;
        }
    for (std::size_t l = 0; i + l < count; ++l) {
        double const value = static_cast<precision::accumulator<T>>(values[i + l]);
        sums[l] += value * value;
    }
    for (std::size_t half = lanes / 2; half > 0; half /= 2)
        for (std::size_t l = 0; l < half; ++l) sums[l] += sums[l + half];
    return sums[0];
}

/// The exact sum of the squares of up to 2^16 values that are floats: squared mantissas (48 bits) are added up per exponent.
template <class T>
void add_float_squares(T const* values, std::size_t count, ExactSum& total) noexcept {
    constexpr std::size_t                              tables = 2;  // neighbours often share an exponent: let them not wait for each other
    std::array<std::array<std::uint64_t, 256>, tables> bins{};
    for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t const bits     = std::bit_cast<std::uint32_t>(static_cast<float>(values[i]));
        std::uint32_t const exponent = bits >> 23 & 0xFFu;
        std::uint64_t const mantissa = (bits & 0x7FFFFFu) | (exponent != 0 ? 0x800000u : 0u);
        bins[i % tables][exponent] += exponent != 0xFF ? mantissa * mantissa : 1;
    }
    for (auto const& table : bins) {
        for (std::size_t e = 0; e < 255; ++e) {
            int const power = 2 * (static_cast<int>(std::max<std::size_t>(e, 1)) - 150);
            if (table[e] == 0) continue;
            total += std::ldexp(static_cast<double>(table[e] >> 32), power + 32);
            total += std::ldexp(static_cast<double>(table[e] & 0xFFFFFFFFu), power);
        }
        for (std::uint64_t n = 0; n < table[255]; ++n) total += std::numeric_limits<double>::quiet_NaN();
    }
}

/// Adds the sum of squares of whole granules.
template <class T>
void add_squares(std::span<T const> values, std::size_t granule, ExactSum& total) noexcept {
    constexpr std::size_t binned = 1024;  // from here on emptying the bins does not matter
    if constexpr (!std::is_same_v<T, double>) {
        if (granule == 1 && values.size() >= binned) {
            for (std::size_t i = 0; i < values.size(); i += 65536)
                add_float_squares(values.data() + i, std::min<std::size_t>(65536, values.size() - i), total);
            return;
        }
    }
    for (std::size_t i = 0; i < values.size(); i += granule)
        total += granule_squares(values.data() + i, std::min(granule, values.size() - i));
}

/// What body(block, sum) adds to a sum for each block, added up without rounding. `cost` as in runtime::parallel_for.
template <class Body>
ExactSum sum_of_blocks(std::size_t blocks, std::size_t cost, Body const& body) {
    runtime::ScratchFrame     frame;
    std::span<ExactSum> const sums = frame.take<ExactSum>(blocks);
    std::ranges::fill(sums, ExactSum{});
    runtime::parallel_for(blocks, cost, [&](std::size_t block) { body(block, sums[block]); });
    ExactSum total;
    for (ExactSum const& sum : sums) total += sum;
    return total;
}

}  // namespace detail

/// Sum of squares. Each `granule` elements, counted from the start of the span, are summed in double in one fixed way; these sums are added
/// without rounding. So calls over parts of whole granules add up to the same bits as one call over all. NaN and infinity make the value
/// NaN.
template <class T>
ExactSum sum_of_squares(std::span<T> values, std::size_t granule) {
    using Element = std::remove_const_t<T>;
    require(granule > 0, "sum_of_squares: the granule must be at least 1, found 0");
    constexpr std::size_t          least = 65536, most = 64;
    std::span<Element const> const all      = values;
    std::size_t const              granules = (all.size() + granule - 1) / granule;
    std::size_t const              blocks   = std::min(most, (all.size() + least - 1) / least);
    if (blocks == 0) return {};
    std::size_t const size = (granules + blocks - 1) / blocks * granule;
    return detail::sum_of_blocks(blocks, size, [&](std::size_t b, ExactSum& sum) {
        std::size_t const begin = std::min(all.size(), b * size);
        detail::add_squares(all.subspan(begin, std::min(size, all.size() - begin)), granule, sum);
    });
}

/// Elements in granules, the last of which may be cut short.
template <class T>
struct Granules {
    std::span<T const> values;
    std::size_t        granule;
};

/// Sum of squares over many spans at once: small ones together are worth several threads.
template <class T>
ExactSum sum_of_squares(std::span<Granules<T> const> parts) {
    std::size_t elements = 0;
    for (Granules<T> const& part : parts) elements += part.values.size();
    if (elements == 0) return {};
    return detail::sum_of_blocks(parts.size(), elements / parts.size(),
                                 [&](std::size_t p, ExactSum& sum) { detail::add_squares(parts[p].values, parts[p].granule, sum); });
}

}  // namespace lockstep::kernel
