#pragma once
// Products of a linear layer with GELU at their end: where the tiles compute them, GELU is applied before the sums leave the cache.
// N rows (tokens), K inputs, M outputs.

#include "lockstep/kernel/activation.hpp"
#include "lockstep/kernel/gemm.hpp"

namespace lockstep::kernel {

/// pre = x W^T + bias, y = gelu(pre). Overwrites both. `bias` may be an empty view.
template <class X, class W, class B, class Y>
void gemm_forward_gelu(View<X, 2>       x,     // (N,K)
                       state::Matrix<W> w,     // [M,K]
                       View<B, 1>       bias,  // (M) or empty
                       View<Y, 2>       pre,   // (N,M)
                       View<Y, 2>       y) {         // (N,M)
    require_shape("gemm_forward_gelu", "y", y, pre.extent(0), pre.extent(1));
#if LOCKSTEP_TILES
    if constexpr (detail::each_is<precision::bfloat16, X, W, B, Y>)
        if (detail::in_tiles<arch::ForwardWeights>(w)) {
            detail::require_forward_shapes(x, w, bias, pre);
            return gemm_forward_gelu(arch::tiles{}, View<X const, 2>(x), arch::ForwardWeights(w), View<B const, 1>(bias), pre, y);
        }
#endif
    gemm_forward(x, w, bias, pre);
    gelu_forward(pre, y);
}

/// dx = dy W * gelu'(pre). Overwrites dx.
template <class DY, class W, class X, class DX>
void gemm_input_grad_gelu(View<DY, 2>      dy,   // (N,M)
                          state::Matrix<W> w,    // [M,K]
                          View<X, 2>       pre,  // (N,K)
                          View<DX, 2>      dx) {      // (N,K)
    require_shape("gemm_input_grad_gelu", "pre", pre, dx.extent(0), dx.extent(1));
#if LOCKSTEP_TILES
    if constexpr (detail::each_is<precision::bfloat16, DY, W, X> && arch::tile_output<DX>)
        if (detail::in_tiles<arch::InputGradWeights>(w)) {
            detail::require_input_grad_shapes(dy, w, dx);
            return gemm_input_grad_gelu(arch::tiles{}, View<DY const, 2>(dy), arch::InputGradWeights(w), View<X const, 2>(pre), dx);
        }
#endif
    gemm_input_grad(dy, w, dx);
    gelu_backward(pre, dx, dx);
}

}  // namespace lockstep::kernel
