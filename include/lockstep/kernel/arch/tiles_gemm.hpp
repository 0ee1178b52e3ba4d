#pragma once
// Forward and input-gradient products of a linear layer on tiles: which copy of the weight is read, and what becomes of the sums.
// N rows (tokens), K inputs, M outputs. A row of the result depends neither on the other rows nor on the number of threads.

#include "lockstep/kernel/arch/tags.hpp"
#include "lockstep/kernel/arch/tiles_blocking.hpp"
#include "lockstep/kernel/arch/tiles_sinks.hpp"
#include "lockstep/state/layout.hpp"
#include "lockstep/tensor/view.hpp"

#if LOCKSTEP_TILES

namespace lockstep::kernel::arch {

using tensor::View;

/// True where a matrix lies in tiles of 32 x 32 whose elements follow each other in this order.
inline bool in_blocks(state::MatrixMap const& map, state::TileOrder order) noexcept {
    return map.order() == order && map.panel_rows() == block_size && map.tile_columns() == block_size;
}

/// A weight [rows, columns] in tiles of 32 x 32: panels of 32 rows, each with its tiles one after another. The kind says which order inside
/// a tile is meant, see state::TileOrder.
template <state::TileOrder order>
struct PackedWeights {
    bfloat16 const* data = nullptr;
    std::size_t     rows = 0, columns = 0;

    std::size_t tiles_across() const noexcept { return (columns + block_size - 1) / block_size; }

    static bool fits(state::MatrixMap const& map) noexcept { return in_blocks(map, order); }
    explicit PackedWeights(state::Matrix<bfloat16 const> w) : data(w.data), rows(w.rows()), columns(w.columns()) {
        require(fits(w.map), "gemm: a packed copy of the weight expected");
    }
};
using ForwardWeights   = PackedWeights<state::TileOrder::column_pairs>;
using InputGradWeights = PackedWeights<state::TileOrder::row_pairs>;

namespace detail {
inline constexpr std::size_t tile_elements = block_size * block_size;

/// Results that pass the caches are written as they come, column by column; others along the rows, so that lines are met again soon.
template <class Sink>
void multiply_forward(View<bfloat16 const, 2> x, ForwardWeights w, Sink const& sink) {
    PackedProduct const product{x.extent(0), x.extent(1), w.rows,        x.data(),
                                x.stride(0), w.data,      tile_elements, w.tiles_across() * tile_elements};
    sink.past_caches() ? multiply_packed<Streams::left>(product, sink) : multiply_packed<Streams::right>(product, sink);
}

/// The tiles of a column panel of the backward copy lie far apart, in a few sets of the first-level cache: they cannot stay there.
template <class Sink>
void multiply_backward(View<bfloat16 const, 2> dy, InputGradWeights w, Sink const& sink) {
    multiply_packed<Streams::right>(
        {dy.extent(0), dy.extent(1), w.columns, dy.data(), dy.stride(0), w.data, w.tiles_across() * tile_elements, tile_elements}, sink);
}

}  // namespace detail

/// y = x W^T + bias. `bias` may be empty.
template <tile_output B, tile_output Y>
void gemm_forward(tiles, View<bfloat16 const, 2> x,  // (N,K)
                  ForwardWeights   w,                // [M,K]
                  View<B const, 1> bias,             // (M) or empty
                  View<Y, 2>       y,                // (N,M)
                  Stores           stores = Stores::by_size) {
    detail::multiply_forward(x, w, StoreSink<Y, B>{{y, stores}, bias.data()});
}

/// pre = x W^T + bias, y = gelu(pre).
template <tile_output B>
void gemm_forward_gelu(tiles, View<bfloat16 const, 2> x,  // (N,K)
                       ForwardWeights    w,               // [M,K]
                       View<B const, 1>  bias,            // (M) or empty
                       View<bfloat16, 2> pre,             // (N,M)
                       View<bfloat16, 2> y,               // (N,M)
                       Stores            stores = Stores::by_size) {
    detail::multiply_forward(x, w, GeluSink<B>{{y, stores}, bias.data(), {pre, stores}});
}

/// dx = dy W.
template <tile_output DX>
void gemm_input_grad(tiles, View<bfloat16 const, 2> dy,  // (N,M)
                     InputGradWeights w,                 // [M,K]
                     View<DX, 2>      dx,                // (N,K)
                     Stores           stores = Stores::by_size) {
    detail::multiply_backward(dy, w, StoreSink<DX, bfloat16>{{dx, stores}, nullptr});
}

/// dx = dy W * gelu'(pre).
template <tile_output DX>
void gemm_input_grad_gelu(tiles, View<bfloat16 const, 2> dy,  // (N,M)
                          InputGradWeights        w,          // [M,K]
                          View<bfloat16 const, 2> pre,        // (N,K)
                          View<DX, 2>             dx,         // (N,K)
                          Stores                  stores = Stores::by_size) {
    detail::multiply_backward(dy, w, GeluGradSink<DX>{{dx, stores}, SourceRows<bfloat16>(pre)});
}

}  // namespace lockstep::kernel::arch

#endif
