#pragma once
// Sizes, counts and durations as people read them.

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace lockstep::report {

/// A number with a fixed number of decimals.
inline std::string fixed(double value, int decimals) {
    if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    std::array<char, 400> text{};
    std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
    return text.data();
}

namespace detail {

/// Three digits and a unit: the largest that leaves at least 1.
template <std::size_t Units>
std::string scaled(double value, double base, std::array<std::string_view, Units> const& units) {
    std::size_t unit = 0;
    while (unit + 1 < Units && value >= base - 0.5) {
        value /= base;
        ++unit;
    }
    std::string text = fixed(value, unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
    if (!units[unit].empty()) (text += ' ') += units[unit];
    return text;
}

}  // namespace detail

/// "17 B", "1.50 KiB", "25.0 MiB", "115 GiB".
inline std::string readable_bytes(std::uint64_t bytes) {
    return detail::scaled(static_cast<double>(bytes), 1024, std::array<std::string_view, 6>{"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

/// "256", "12.3 k", "124 M", "1.56 G".
inline std::string readable_count(double count) {
    return detail::scaled(count, 1000, std::array<std::string_view, 5>{"", "k", "M", "G", "T"});
}

/// "0.42 s", "42.1 s", "3 min 05 s", "1 h 02 min", "3 d 04 h".
inline std::string readable_duration(double seconds) {
    if (!std::isfinite(seconds) || seconds < 0) return "-";
    if (seconds < 9.995) return fixed(seconds, 2) + " s";
    if (seconds < 59.95) return fixed(seconds, 1) + " s";
    auto const pair = [](std::uint64_t large, std::string_view large_unit, std::uint64_t small, std::string_view small_unit) {
        std::string text = std::to_string(large);
        ((text += ' ') += large_unit) += small < 10 ? " 0" : " ";
        return ((text += std::to_string(small)) += ' ') += small_unit;
    };
    double const limit = 1e15;
    auto const   whole = static_cast<std::uint64_t>(std::llround(seconds < limit ? seconds : limit));
    if (whole < 3600) return pair(whole / 60, "min", whole % 60, "s");
    if (whole < 86400) return pair(whole / 3600, "h", whole % 3600 / 60, "min");
    return pair(whole / 86400, "d", whole % 86400 / 3600, "h");
}

}  // namespace lockstep::report
