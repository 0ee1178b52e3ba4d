#pragma once
// Attention forward on the tile unit: which task computes what.

#include "lockstep/kernel/arch/amx_tile.hpp"

#if LOCKSTEP_TILES

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "lockstep/kernel/arch/tags.hpp"
#include "lockstep/kernel/arch/tiles_attention_forward_pass.hpp"
#include "lockstep/kernel/attention_shape.hpp"
#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel::arch {

template <class T>
concept bfloat16_readable = std::same_as<std::remove_const_t<T>, precision::bfloat16>;

/// The largest head that the tile kernels take.
inline constexpr std::size_t tile_head_size = 128;

namespace detail {

template <bfloat16_readable X>
HeadRows head_rows(AttentionShape s, tensor::View<X, 2> x, std::size_t b, std::size_t column) noexcept {
    return {x.data() + b * s.sequence * x.stride(0) + column, x.stride(0), s.sequence, s.head_size};
}

inline HeadDropout head_dropout(AttentionShape s, AttentionDropout const& dropout, std::size_t b, std::size_t h) {
    kernel::detail::DropFactor const factor(dropout);
    return {factor.key, factor.threshold, static_cast<float>(factor.active() ? factor.kept : 1.0),
            kernel::detail::dropout_row(s, dropout, b, h, 0), s.sequence};
}

/// Elementary operations of one of `products` products of `queries` queries with the keys that they see, for parallel_for.
constexpr std::size_t product_cost(AttentionShape s, std::size_t queries, std::size_t products) noexcept {
    return products * queries * (s.sequence * s.head_size / 256 + s.head_size);
}

}  // namespace detail

/// Heads of up to `tile_head_size` elements. Scores, softmax and sums are fp32; the weights are rounded to bfloat16 before they meet the
/// values.
template <bfloat16_readable X>
void attention_forward(tiles, AttentionShape s, tensor::View<X, 2> qkv,  // (B*T, (H+2K)*D)
                       tensor::View<precision::bfloat16, 2> out,         // (B*T, H*D)
                       tensor::View<float, 2>               lse,         // (B*H, T)
                       AttentionDropout const&              dropout) {
    if (s.rows() == 0) return;
    // A task packs the keys and values that it sees, so it takes a whole head where there are enough of them.
    constexpr std::size_t enough = 8, least = 8;  // tasks; blocks of queries in a task
    std::size_t const     heads  = s.batch * s.heads;
    std::size_t const     blocks = (s.sequence + head_block - 1) / head_block;
    std::size_t const     span   = std::max(std::min(blocks, least), blocks / ((enough + heads - 1) / heads));
    std::size_t const     parts  = (blocks + span - 1) / span;
    auto const            cost   = detail::product_cost(s, std::min(s.sequence, span * head_block), 2);
    runtime::parallel_for(heads * parts, cost, [&](std::size_t index) {
        std::size_t const b = index / parts / s.heads, h = index / parts % s.heads;
        std::size_t const begin = (parts - 1 - index % parts) * span;  // the longest first
        ForwardTask const task{detail::head_rows(s, qkv, b, h * s.head_size),
                               detail::head_rows(s, qkv, b, s.key_column(h / s.group())),
                               detail::head_rows(s, qkv, b, s.value_column(h / s.group())),
                               &out(b * s.sequence, h * s.head_size),
                               out.stride(0),
                               &lse(b * s.heads + h, 0),
                               1.0f / std::sqrt(static_cast<float>(s.head_size)),
                               detail::head_dropout(s, dropout, b, h),
                               begin,
                               std::min(blocks, begin + span)};
        attention_forward_head(task);
    });
}

}  // namespace lockstep::kernel::arch

#endif
