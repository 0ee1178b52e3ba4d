#pragma once
// What the attention and rotary kernels are told besides their tensors.

#include <cstddef>
#include <cstdint>

#include "lockstep/core/assertion.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/kernel/drop_threshold.hpp"

namespace lockstep::kernel {

/// Sizes of causal self-attention. A row of qkv is the H query heads, then the K key heads, then the K value heads, D elements each.
/// Query head h reads key and value head h / (H / K).
struct AttentionShape {
    std::size_t batch     = 0;  // B
    std::size_t sequence  = 0;  // T
    std::size_t heads     = 0;  // H, a multiple of K
    std::size_t kv_heads  = 0;  // K
    std::size_t head_size = 0;  // D

    constexpr std::size_t rows() const noexcept { return batch * sequence; }                           // B*T
    constexpr std::size_t group() const noexcept { return heads / kv_heads; }                          // H/K
    constexpr std::size_t qkv_columns() const noexcept { return (heads + 2 * kv_heads) * head_size; }  // (H+2K)*D
    constexpr std::size_t out_columns() const noexcept { return heads * head_size; }                   // H*D
    constexpr std::size_t key_column(std::size_t kv_head) const noexcept { return (heads + kv_head) * head_size; }
    constexpr std::size_t value_column(std::size_t kv_head) const noexcept { return (heads + kv_heads + kv_head) * head_size; }
};

/// Drops attention weights with probability p and scales the others by 1/(1-p). The fate of weight (b, h, query, key) is a function of
/// `key` and of element ((first_sample + b) * H + h) * T * T + query * T + key, so it depends on no rank, block or thread.
struct AttentionDropout {
    float         probability = 0;  // p, in [0, 1)
    RandomKey     key{};
    std::uint64_t first_sample = 0;  // global index of the sequence at b = 0
};

namespace detail {

inline void require_attention_shape(AttentionShape s) {
    require(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "attention: query heads must be a multiple of key/value heads, found ", s.heads,
            " and ", s.kv_heads);
    require(s.head_size > 0, "attention: the head size must be positive");
}

/// What a weight is multiplied with: 0 where its random number is below p, 1/(1-p) where it stays.
struct DropFactor {
    explicit DropFactor(AttentionDropout const& d)
        : key(d.key), threshold(drop_threshold(d.probability)), kept(1 / (1 - static_cast<double>(d.probability))) {
        require(d.probability >= 0 && d.probability < 1, "attention: the dropout probability must lie in [0, 1), found ", d.probability);
    }
    bool   active() const noexcept { return threshold != 0; }
    double operator()(std::uint64_t element) const noexcept { return active() && random_bits(key, element) < threshold ? 0 : kept; }

    RandomKey     key;
    std::uint32_t threshold;  // random bits below it drop the weight
    double        kept;
};

/// Element index of weight (b, h, query, 0).
constexpr std::uint64_t dropout_row(AttentionShape s, AttentionDropout const& d, std::size_t b, std::size_t h, std::size_t query) noexcept {
    return (((d.first_sample + b) * s.heads + h) * s.sequence + query) * s.sequence;
}

}  // namespace detail
}  // namespace lockstep::kernel
