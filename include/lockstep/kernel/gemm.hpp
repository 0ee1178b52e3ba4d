#pragma once
// Products of a linear layer: forward, gradient of its input, gradients of its weight and bias. Sums are in the accumulator type
// and do not depend on the number of threads; a row of y or dx does not depend on which other rows are computed with it.
// N rows (tokens), K inputs, M outputs.

#include "lockstep/core/assertion.hpp"
#include "lockstep/kernel/arch/scalar_gemm.hpp"
#include "lockstep/kernel/arch/simd_gemm.hpp"
#include "lockstep/kernel/arch/tiles_gemm.hpp"
#include "lockstep/kernel/arch/tiles_weight_grad.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/kernel/shape.hpp"
#include "lockstep/state/layout.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel {

using tensor::View;

namespace detail {

/// True where the tile kernels take a weight: bfloat16 in the order that they read.
template <class Packed, class W>
bool in_tiles([[maybe_unused]] state::Matrix<W> w) noexcept {
    return uses_tiles() && Packed::fits(w.map);
}

template <class X, class W, class B, class Y>
void require_forward_shapes(View<X, 2> x, state::Matrix<W> w, View<B, 1> bias, View<Y, 2> y) {
    require(x.extent(1) == w.columns() && y.extent(0) == x.extent(0) && y.extent(1) == w.rows(),
            "gemm_forward: x (N,K), w [M,K], y (N,M) expected, found x (", x.extent(0), ",", x.extent(1), "), w [", w.rows(), ",",
            w.columns(), "], y (", y.extent(0), ",", y.extent(1), ")");
    require(bias.empty() || bias.extent(0) == w.rows(), "gemm_forward: bias (M) expected for w [", w.rows(), ",", w.columns(), "], found (",
            bias.extent(0), ")");
}

template <class DY, class W, class DX>
void require_input_grad_shapes(View<DY, 2> dy, state::Matrix<W> w, View<DX, 2> dx) {
    require(dy.extent(1) == w.rows() && dx.extent(0) == dy.extent(0) && dx.extent(1) == w.columns(),
            "gemm_input_grad: dy (N,M), w [M,K], dx (N,K) expected, found dy (", dy.extent(0), ",", dy.extent(1), "), w [", w.rows(), ",",
            w.columns(), "], dx (", dx.extent(0), ",", dx.extent(1), ")");
}

}  // namespace detail

/// y = x W^T + bias. Overwrites y. `bias` may be an empty view.
template <class X, class W, class B, class Y>
void gemm_forward(View<X, 2>       x,     // (N,K)
                  state::Matrix<W> w,     // [M,K]
                  View<B, 1>       bias,  // (M) or empty
                  View<Y, 2>       y) {         // (N,M)
    detail::require_forward_shapes(x, w, bias, y);
    if (y.size() == 0) return;
#if LOCKSTEP_TILES
    if constexpr (detail::each_is<precision::bfloat16, X, W, B> && arch::tile_output<Y>)
        if (detail::in_tiles<arch::ForwardWeights>(w))
            return gemm_forward(arch::tiles{}, View<X const, 2>(x), arch::ForwardWeights(w), View<B const, 1>(bias), y);
#endif
    with_arch([&](auto arch) { gemm_forward(arch, x, w, bias, y); });
}

/// dx = dy W. Overwrites dx.
template <class DY, class W, class DX>
void gemm_input_grad(View<DY, 2>      dy,  // (N,M)
                     state::Matrix<W> w,   // [M,K]
                     View<DX, 2>      dx) {     // (N,K)
    detail::require_input_grad_shapes(dy, w, dx);
    if (dx.size() == 0) return;
#if LOCKSTEP_TILES
    if constexpr (detail::each_is<precision::bfloat16, DY, W> && arch::tile_output<DX>)
        if (detail::in_tiles<arch::InputGradWeights>(w))
            return gemm_input_grad(arch::tiles{}, View<DY const, 2>(dy), arch::InputGradWeights(w), dx);
#endif
    with_arch([&](auto arch) { gemm_input_grad(arch, dy, w, dx); });
}

/// db += sum of the rows of dy.
template <class DY, class G>
void bias_grad(View<DY, 2> dy,   // (N,M)
               View<G, 1>  db) {  // (M)
    require(dy.extent(1) == db.extent(0), "bias_grad: dy (N,M), db (M) expected, found dy (", dy.extent(0), ",", dy.extent(1), "), db (",
            db.extent(0), ")");
    if (db.size() == 0) return;
    with_arch([&](auto arch) { bias_grad(arch, dy, db); });
}

/// dw += dy^T x, db += sum of the rows of dy. `db` may be an empty view. Padding of dw is not touched.
template <class DY, class X, class G>
void gemm_weight_grad(View<DY, 2>      dy,  // (N,M)
                      View<X, 2>       x,   // (N,K)
                      state::Matrix<G> dw,  // [M,K]
                      View<G, 1>       db) {      // (M) or empty
    require(dy.extent(0) == x.extent(0) && dy.extent(1) == dw.rows() && x.extent(1) == dw.columns(),
            "gemm_weight_grad: dy (N,M), x (N,K), dw [M,K] expected, found dy (", dy.extent(0), ",", dy.extent(1), "), x (", x.extent(0),
            ",", x.extent(1), "), dw [", dw.rows(), ",", dw.columns(), "]");
#if LOCKSTEP_TILES
    if constexpr (detail::each_is<precision::bfloat16, DY, X> && std::same_as<G, float>)
        if (uses_tiles() && arch::in_blocks(dw.map, state::TileOrder::rows))
            return gemm_weight_grad(arch::tiles{}, View<DY const, 2>(dy), View<X const, 2>(x), dw, db);
#endif
    if (dw.rows() != 0 && dw.columns() != 0) with_arch([&](auto arch) { gemm_weight_grad(arch, dy, x, dw); });
    if (!db.empty()) bias_grad(dy, db);
}

}  // namespace lockstep::kernel
