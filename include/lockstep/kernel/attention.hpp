#pragma once
// Causal self-attention with grouped key/value heads: softmax(Q K^T / sqrt(D)) V, forward and backward.
// No T x T matrix is kept: backward recomputes the weights from the log-sum-exp of each row (Dao et al. 2022, arXiv:2205.14135).

#include <concepts>
#include <type_traits>

#include "lockstep/kernel/arch/scalar_attention.hpp"
#include "lockstep/kernel/arch/simd_attention.hpp"
#include "lockstep/kernel/arch/simd_attention_backward.hpp"
#include "lockstep/kernel/arch/tiles_attention.hpp"
#include "lockstep/kernel/arch/tiles_attention_backward.hpp"
#include "lockstep/kernel/attention_shape.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/kernel/shape.hpp"
#include "lockstep/precision/mixed.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel {

/// Element types are those of precision::compute_element; scores, softmax and sums are in accumulator<X>. `out` may not overlap qkv.
/// Each output is computed in an order that depends on T, D and H/K only, so not on threads nor on the place of a sequence in the batch.
/// Heads above 128 elements leave the tiles: they are computed in vectors, whatever their type. Shapes that do not fit are errors.
template <class X, class Y, class L>
void attention_forward(AttentionShape shape, tensor::View<X, 2> qkv,  // (B*T, (H+2K)*D)
                       tensor::View<Y, 2>      out,                   // (B*T, H*D)
                       tensor::View<L, 2>      lse,                   // (B*H, T) natural log of the sum of exponentials of a row of scores
                       AttentionDropout const& dropout = {}) {
    static_assert(std::same_as<std::remove_const_t<L>, precision::accumulator<std::remove_const_t<X>>>,
                  "lockstep: attention's lse must be of the accumulator type; see lockstep/kernel/attention.hpp");
    detail::require_attention_shape(shape);
    require_shape("attention", "qkv", qkv, shape.rows(), shape.qkv_columns());
    require_shape("attention", "out", out, shape.rows(), shape.out_columns());
    require_shape("attention", "lse", lse, shape.batch * shape.heads, shape.sequence);
#if LOCKSTEP_TILES
    if constexpr (detail::each_is<precision::bfloat16, X, Y>)
        if (uses_tiles() && shape.head_size <= arch::tile_head_size)
            return attention_forward(arch::tiles{}, shape, tensor::View<X const, 2>(qkv), out, lse, dropout);
#endif
    with_arch([&](auto arch) { attention_forward(arch, shape, qkv, out, lse, dropout); });
}

/// Gradient of `attention_forward`, given its inputs, its two outputs and the same dropout.
template <class X, class O, class DO, class L, class DX>
void attention_backward(AttentionShape shape, tensor::View<X, 2> qkv,  // (B*T, (H+2K)*D)
                        tensor::View<O, 2>      out,                   // (B*T, H*D)
                        tensor::View<DO, 2>     dout,                  // (B*T, H*D)
                        tensor::View<L, 2>      lse,                   // (B*H, T)
                        tensor::View<DX, 2>     dqkv,                  // (B*T, (H+2K)*D) overwritten
                        AttentionDropout const& dropout = {}) {
    static_assert(std::same_as<std::remove_const_t<L>, precision::accumulator<std::remove_const_t<X>>>,
                  "lockstep: attention's lse must be of the accumulator type; see lockstep/kernel/attention.hpp");
    detail::require_attention_shape(shape);
    require_shape("attention", "qkv", qkv, shape.rows(), shape.qkv_columns());
    require_shape("attention", "out", out, shape.rows(), shape.out_columns());
    require_shape("attention", "dout", dout, shape.rows(), shape.out_columns());
    require_shape("attention", "lse", lse, shape.batch * shape.heads, shape.sequence);
    require_shape("attention", "dqkv", dqkv, shape.rows(), shape.qkv_columns());
#if LOCKSTEP_TILES
    if constexpr (detail::each_is<precision::bfloat16, X, O, DO, DX>)
        if (uses_tiles() && shape.head_size <= arch::tile_head_size)
            return attention_backward(arch::tiles{}, shape, tensor::View<X const, 2>(qkv), tensor::View<O const, 2>(out),
                                      tensor::View<DO const, 2>(dout), tensor::View<L const, 2>(lse), dqkv, dropout);
#endif
    with_arch([&](auto arch) { attention_backward(arch, shape, qkv, out, dout, lse, dqkv, dropout); });
}

}  // namespace lockstep::kernel
