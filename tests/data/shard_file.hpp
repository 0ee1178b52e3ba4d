#pragma once
// Token shards of llm.c as bytes, made here so that the reader is not tested with itself.

#include <cstdint>
#include <string>
#include <vector>

inline std::string little_endian(std::int64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
    return text;
}

inline std::string shard_header_of(std::int64_t magic, std::int64_t version, std::int64_t count) {
    std::string text = little_endian(magic, 4) + little_endian(version, 4) + little_endian(count, 4);
    text.resize(1024, '\0');
    return text;
}

/// A whole shard of ids of `width` bytes, 2 or 4.
inline std::string shard(std::vector<std::int64_t> const& ids, int width) {
    std::string text = width == 2 ? shard_header_of(20240520, 1, std::ssize(ids)) : shard_header_of(20240801, 7, std::ssize(ids));
    for (std::int64_t const id : ids) text += little_endian(id, width);
    return text;
}
