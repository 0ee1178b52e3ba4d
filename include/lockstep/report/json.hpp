#pragma once
// Writes one JSON object as text. Numbers are the shortest that read back as the same value.

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::report {

/// A JSON string with its quotes. UTF-8 passes as it is.
inline std::string json_quoted(std::string_view text) {
    constexpr std::string_view hex = "0123456789abcdef";
    std::string                quoted{'"'};
    for (char const c : text) {
        auto const byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            quoted += {'\\', c};
        else if (byte < 0x20)
            quoted += {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
        else
            quoted += c;
    }
    return quoted += '"';
}

/// Keys in the order of the calls. A number that is not finite becomes null and is remembered.
class JsonWriter {
public:
    template <class Number>
        requires((std::integral<Number> || std::floating_point<Number>)&&!std::same_as<Number, bool>)
    JsonWriter& add(std::string_view key, Number value) {
        if constexpr (std::floating_point<Number>) {
            if (!std::isfinite(value)) {
                nonfinite_ = true;
                return raw(key, "null");
            }
        }
        std::array<char, 32> text{};
        auto const           written = std::to_chars(text.data(), text.data() + text.size(), value);
        return raw(key, std::string_view(text.data(), written.ptr));
    }
    /// What was not measured is null.
    template <class Number>
    JsonWriter& add(std::string_view key, std::optional<Number> value) {
        return value ? add(key, *value) : raw(key, "null");
    }
    JsonWriter& add(std::string_view key, std::same_as<bool> auto value) { return raw(key, value ? "true" : "false"); }
    JsonWriter& add_text(std::string_view key, std::string_view value) { return raw(key, json_quoted(value)); }

    /// The value is JSON already.
    JsonWriter& raw(std::string_view key, std::string_view value) {
        text_ += text_.empty() ? "{" : ", ";
        (text_ += json_quoted(key)) += ": ";
        text_ += value;
        return *this;
    }

    bool        nonfinite() const noexcept { return nonfinite_; }
    std::string text() const { return text_.empty() ? "{}" : text_ + '}'; }

private:
    std::string text_;
    bool        nonfinite_ = false;
};

}  // namespace lockstep::report
