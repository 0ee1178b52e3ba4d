#pragma once
// Attention backward on the tile unit: a task owns a key/value head of a sequence, and the query heads that read it one after the other.

#include "lockstep/kernel/arch/amx_tile.hpp"

#if LOCKSTEP_TILES

#include <cmath>
#include <cstddef>

#include "lockstep/kernel/arch/tags.hpp"
#include "lockstep/kernel/arch/tiles_attention.hpp"
#include "lockstep/kernel/arch/tiles_attention_backward_pass.hpp"
#include "lockstep/kernel/attention_shape.hpp"
#include "lockstep/kernel/denormals.hpp"
#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel::arch {
namespace detail {

/// heads(i) are the numbers of query head i of `group`.
template <class Heads>
LOCKSTEP_AVX512_LEAF void attention_backward_head(BackwardKeys const& keys, std::size_t group, Heads const& heads) {
    runtime::ScratchFrame  frame;
    BackwardPass           pass(keys, frame);
    DenormalsAreZero const flush;
    TileScope const        tiles;
    for (std::size_t i = 0; i < group; ++i) pass.run(heads(i), i == 0, i + 1 == group);
}

}  // namespace detail

/// Gradient of attention_forward of the same tag. Weights and gradients of scores are rounded to bfloat16 before they are multiplied.
template <bfloat16_readable X, bfloat16_readable O, bfloat16_readable DO, class L>
void attention_backward(tiles, AttentionShape s, tensor::View<X, 2> qkv,  // (B*T, (H+2K)*D)
                        tensor::View<O, 2>                   out,         // (B*T, H*D)
                        tensor::View<DO, 2>                  dout,        // (B*T, H*D)
                        tensor::View<L, 2>                   lse,         // (B*H, T)
                        tensor::View<precision::bfloat16, 2> dqkv,        // (B*T, (H+2K)*D) overwritten
                        AttentionDropout const&              dropout) {
    if (s.rows() == 0) return;
    runtime::parallel_for(s.batch * s.kv_heads, s.group() * detail::product_cost(s, s.sequence, 5), [&](std::size_t index) {
        std::size_t const  b = index / s.kv_heads, g = index % s.kv_heads, row = b * s.sequence;
        BackwardKeys const keys{detail::head_rows(s, qkv, b, s.key_column(g)),     detail::head_rows(s, qkv, b, s.value_column(g)),
                                {&dqkv(row, s.key_column(g)), dqkv.stride(0)},     {&dqkv(row, s.value_column(g)), dqkv.stride(0)},
                                1.0f / std::sqrt(static_cast<float>(s.head_size)), s.group() == 1};
        auto const         heads = [&](std::size_t i) {
            std::size_t const h = g * s.group() + i;
            return BackwardQueries{detail::head_rows(s, qkv, b, h * s.head_size),
                                   detail::head_rows(s, out, b, h * s.head_size),
                                   detail::head_rows(s, dout, b, h * s.head_size),
                                   {&dqkv(row, h * s.head_size), dqkv.stride(0)},
                                   &lse(b * s.heads + h, 0),
                                   detail::head_dropout(s, dropout, b, h)};
        };
        detail::attention_backward_head(keys, s.group(), heads);
    });
}

}  // namespace lockstep::kernel::arch

#endif
