#pragma once
// The byte tokenizer: one byte is one token.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

struct ByteTokenizer {
    static constexpr std::size_t vocabulary = 256;

    static std::vector<std::int32_t> encode(std::string_view text) {
        std::vector<std::int32_t> ids;
        ids.reserve(text.size());
        for (char const c : text) ids.push_back(static_cast<unsigned char>(c));
        return ids;
    }

    /// The inverse of `encode`. An id that is no byte (a padded vocabulary has some) becomes U+FFFD.
    static std::string decode(std::span<std::int32_t const> ids) {
        std::string text;
        text.reserve(ids.size());
        for (std::int32_t const id : ids) {
            if (id >= 0 && id < 256)
                text.push_back(static_cast<char>(id));
            else
                text += "\xEF\xBF\xBD";
        }
        return text;
    }
};

}  // namespace lockstep::data
