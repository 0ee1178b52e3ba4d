#pragma once
// Text from outside, fit for a terminal: what would move the cursor, turn the line round or be no text is shown as \xNN.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

namespace detail {

/// Bytes of the UTF-8 sequence that begins here and its code point; 0 bytes where it is none (RFC 3629).
struct CodePoint {
    std::size_t   bytes = 0;
    std::uint32_t value = 0;
};
constexpr CodePoint code_point(std::string_view text) noexcept {
    auto const          byte  = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
    std::uint32_t const first = byte(0);
    if (first < 0x80) return {1, first};
    std::size_t const bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return {};
    std::uint32_t value = first & (0xFFu >> (bytes + 1));
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xC0) != 0x80) return {};
        value = value << 6 | (byte(i) & 0x3F);
    }
    bool const overlong = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
    if (overlong || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return {};
    return {bytes, value};
}

/// Controls, separators of lines and paragraphs, marks that change the direction of writing.
constexpr bool disturbs(std::uint32_t c) noexcept {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x61C || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

}  // namespace detail

/// What an escaped text may hold besides what is printed.
enum class Keep { nothing, lines };  // lines: ends of lines and tabs

/// UTF-8 passes as it is, but for characters that disturb a terminal; these and bytes that are no UTF-8 become \xNN.
inline std::string escaped(std::string_view text, Keep keep = Keep::nothing) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string                result;
    result.reserve(text.size());
    while (!text.empty()) {
        auto const [bytes, value] = detail::code_point(text);
        bool const layout         = keep == Keep::lines && (value == '\n' || value == '\t');
        if (bytes != 0 && (layout || !detail::disturbs(value))) {
            result += text.substr(0, bytes);
        } else {
            for (char const c : text.substr(0, bytes == 0 ? 1 : bytes)) {
                auto const byte = static_cast<unsigned char>(c);
                (result += "\\x") += {digits[byte >> 4], digits[byte & 15u]};
            }
        }
        text.remove_prefix(bytes == 0 ? 1 : bytes);
    }
    return result;
}

}  // namespace lockstep
