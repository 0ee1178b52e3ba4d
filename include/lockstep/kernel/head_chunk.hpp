#pragma once
// How many tokens go through the head at a time, and what that takes. Legend: N tokens, R tokens of a chunk, V vocabulary.

#include <algorithm>
#include <concepts>
#include <cstddef>

#include "lockstep/kernel/isa.hpp"
#include "lockstep/precision/mixed.hpp"

namespace lockstep::kernel {

/// What stands for the logits of a chunk: sums in rows padded to cache lines, or on tiles their exponentials in bfloat16, in blocks of
/// 32 x 32.
struct LogitStorage {
    std::size_t bytes = 4;  // of a logit
    bool        tiles = false;

    bool operator==(LogitStorage const&) const = default;
};

/// What the kernels in use keep where weights are of type T, and lie as they prefer.
template <class T>
LogitStorage logit_storage() noexcept {
    if (std::same_as<T, precision::bfloat16> && uses_tiles()) return {sizeof(T), true};
    return {sizeof(precision::accumulator<T>), false};
}

/// Elements from a row of logits to the next.
constexpr std::size_t logit_stride(std::size_t vocab) noexcept { return (vocab + 15) / 16 * 16; }

/// Tokens of a chunk, and the bytes of its logits.
struct HeadChunk {
    std::size_t rows  = 0;
    std::size_t bytes = 0;

    static constexpr std::size_t most_bytes = std::size_t{64} << 20;
    static constexpr std::size_t least_rows = 64;    // however large the vocabulary
    static constexpr std::size_t most_rows  = 1024;  // more gain nothing
};

/// All chunks but the last one are equal: multiples of 32 tokens.
constexpr HeadChunk head_chunk(std::size_t tokens, std::size_t vocab, LogitStorage storage) noexcept {
    constexpr std::size_t unit   = 32;
    std::size_t const     stride = storage.tiles ? (vocab + unit - 1) / unit * unit : logit_stride(vocab);
    std::size_t const     fit    = HeadChunk::most_bytes / (stride * storage.bytes) / unit * unit;
    std::size_t const     most   = std::clamp(fit, HeadChunk::least_rows, HeadChunk::most_rows);
    std::size_t const     count  = std::max<std::size_t>(1, (tokens + most - 1) / most);
    std::size_t const     panels = ((tokens + count - 1) / count + unit - 1) / unit;
    std::size_t const     rows   = std::min(tokens, panels * unit);
    return {rows, stride * storage.bytes * (storage.tiles ? (panels | 1) * unit : rows)};  // blocks: see arch::ExponentialBlocks
}

}  // namespace lockstep::kernel
