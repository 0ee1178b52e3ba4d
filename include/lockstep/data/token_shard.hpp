#pragma once
// Token shards of llm.c: 256 little-endian int32 (magic, version, count, zeros), then `count` ids of 2 or 4 bytes
// (karpathy/llm.c, dev/data/data_common.py).

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>

#include "lockstep/core/error.hpp"

namespace lockstep::data {

static_assert(std::endian::native == std::endian::little,
              "lockstep: token shards are read as they are, so the machine must be little-endian");

struct ShardFormat {
    std::int32_t magic   = 0;
    std::int32_t version = 0;
    std::size_t  width   = 0;  // bytes of a token
};

inline constexpr std::array  shard_formats{ShardFormat{20240520, 1, 2}, ShardFormat{20240801, 7, 4}};
inline constexpr std::size_t shard_header = 1024;  // bytes

/// What a shard's header says, after every check against the file's size.
struct ShardBody {
    std::size_t width = 0;  // bytes of a token
    std::size_t count = 0;  // tokens
};

namespace detail {

/// The other files of llm.c that also end in .bin.
constexpr std::string_view other_llmc_file(std::int32_t magic) noexcept {
    switch (magic) {
        case 20240522:
            return "multiple-choice evaluation";
        case 20240326:
            return "GPT-2 weights";
        case 20240803:
            return "Llama-3 weights";
        case 20240327:
            return "debug state";
        case 20240527:
            return "optimizer state";
        case 20240328:
            return "tokenizer";
        default:
            return {};
    }
}

}  // namespace detail

/// Reads and checks the header of a shard: `start` is its first 1024 bytes, or all where it has fewer, of `size`.
inline ShardBody read_shard_header(std::filesystem::path const& path, std::span<std::byte const> start, std::size_t size) {
    if (size < shard_header)
        input_error("token shard ", path, ": expected a header of ", shard_header, " bytes, found a file of ", size, " bytes (truncated)");
    std::array<std::int32_t, 3> header{};
    std::memcpy(header.data(), start.data(), sizeof header);
    auto const [magic, version, count] = header;

    ShardFormat format;
    for (ShardFormat const& known : shard_formats) {
        if (magic == known.magic) format = known;
        if (magic == static_cast<std::int32_t>(__builtin_bswap32(static_cast<std::uint32_t>(known.magic))))
            input_error("token shard ", path, ": expected little-endian numbers, found the magic ", known.magic,
                        " byte-swapped (written big-endian)");
    }
    if (format.width == 0) {
        if (std::string_view const other = detail::other_llmc_file(magic); !other.empty())
            input_error("token shard ", path, ": expected tokens, found the magic ", magic, " of an llm.c file of another kind (", other,
                        ")");
        input_error("token shard ", path, ": expected the magic 20240520 (uint16) or 20240801 (uint32), found ", magic);
    }
    if (version != format.version)
        input_error("token shard ", path, ": expected version ", format.version, " with the magic ", magic, ", found ", version);
    if (count <= 0) input_error("token shard ", path, ": expected a token count above 0, found ", count);

    std::uint64_t const expected = shard_header + static_cast<std::uint64_t>(count) * format.width;
    if (size < expected)
        input_error("token shard ", path, ": truncated: expected ", expected, " bytes for ", count, " tokens, found ", size);
    if (size > expected)
        input_error("token shard ", path, ": trailing bytes: expected ", expected, " bytes for ", count, " tokens, found ", size);
    return {format.width, static_cast<std::size_t>(count)};
}

}  // namespace lockstep::data
