#pragma once
// The door to nlohmann-json: strict reading. No duplicate keys, no bytes after the end, no types taken for others.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/io/file.hpp"

namespace lockstep::io {

using Json = nlohmann::json;

/// Levels of nesting that are accepted.
inline constexpr std::size_t json_depth = 64;

namespace detail {

/// What the parser would let pass: it takes a NUL byte for the end of the text, and skips a byte order mark.
inline void check_text(std::string_view text, std::string const& source) {
    if (std::size_t const at = text.find('\0'); at != std::string_view::npos)
        input_error(source, ": expected JSON, found a NUL byte at byte ", at);
    if (text.starts_with("\xEF\xBB\xBF")) input_error(source, ": expected JSON, found a byte order mark before it");
}

/// The parser's sentence without its "[json.exception.parse_error.101] ".
[[noreturn]] inline void not_json(std::string const& source, std::exception const& fault) {
    std::string_view reason = fault.what();
    if (std::size_t const end = reason.find("] "); reason.starts_with('[') && end != std::string_view::npos) reason.remove_prefix(end + 2);
    input_error(source, ": expected JSON, found a ", printable(reason, 300));
}

}  // namespace detail

/// Reads JSON as events, for handlers with the members of nlohmann::json_sax; nothing is kept that the handler does not keep.
template <class Handler>
void parse_events(std::string_view text, std::string const& source, Handler& handler) {
    detail::check_text(text, source);
    Json::sax_parse(text.begin(), text.end(), &handler);
}

/// Reads JSON; `source` is the file name for messages.
inline Json parse_json(std::string_view text, std::string const& source) {
    detail::check_text(text, source);
    std::vector<std::set<std::string>> keys;  // of the objects that are open
    auto const                         check = [&](int depth, Json::parse_event_t event, Json& parsed) {
        if (depth >= static_cast<int>(json_depth))
            input_error(source, ": JSON nested deeper than ", json_depth, " levels: expected no more, found ", depth + 1);
        if (event == Json::parse_event_t::object_start) keys.emplace_back();
        if (event == Json::parse_event_t::object_end) keys.pop_back();
        if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
            input_error(source, ": duplicate key \"", printable(parsed.get<std::string>()), "\": expected once, found twice");
        return true;
    };
    try {
        return Json::parse(text.begin(), text.end(), check);
    } catch (Json::exception const& fault) {
        detail::not_json(source, fault);
    }
}

inline Json read_json(std::filesystem::path const& path, std::uint64_t limit) { return parse_json(read_text(path, limit), path.string()); }

/// An object whose values are taken by type; messages name the file, the key, what was expected and what was found.
/// Does not own the JSON. Where there is a fallback, null counts as absent.
class JsonObject {
public:
    JsonObject(Json const& json, std::string source) : json_(&json), source_(std::move(source)) {
        if (!json.is_object()) input_error(source_, ": expected a JSON object, found ", shown(json));
    }

    std::string const& source() const noexcept { return source_; }
    Json const&        json() const noexcept { return *json_; }
    bool               has(std::string const& key) const { return json_->contains(key) && !json_->at(key).is_null(); }

    std::uint64_t unsigned_integer(std::string const& key, std::optional<std::uint64_t> fallback = {}) const {
        return take<std::uint64_t>(key, fallback, "an unsigned integer", [](Json const& v) { return v.is_number_unsigned(); });
    }
    double number(std::string const& key, std::optional<double> fallback = {}) const {
        return take<double>(key, fallback, "a number", [](Json const& v) { return v.is_number(); });
    }
    bool boolean(std::string const& key, std::optional<bool> fallback = {}) const {
        return take<bool>(key, fallback, "true or false", [](Json const& v) { return v.is_boolean(); });
    }
    std::string string(std::string const& key, std::optional<std::string> fallback = {}) const {
        return take<std::string>(key, fallback, "a string", [](Json const& v) { return v.is_string(); });
    }
    JsonObject object(std::string const& key) const {
        static_cast<void>(take<Json>(key, {}, "an object", [](Json const& v) { return v.is_object(); }));
        return {json_->at(key), source_};
    }

    /// A sentence about one key.
    template <class... Parts>
    [[noreturn]] void refuse(std::string const& key, Parts const&... parts) const {
        input_error(source_, ": \"", printable(key), "\" ", parts...);
    }

    static std::string shown(Json const& value) { return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 80); }

private:
    template <class T, class Accepts>
    T take(std::string const& key, std::optional<T> const& fallback, std::string_view expected, Accepts accepts) const {
        if (fallback && !has(key)) return *fallback;
        if (!json_->contains(key)) refuse(key, "must be ", expected, ", found nothing");
        Json const& value = json_->at(key);
        if (!accepts(value)) refuse(key, "must be ", expected, ", found ", shown(value));
        return value.get<T>();
    }

    Json const* json_;
    std::string source_;
};

}  // namespace lockstep::io
