#pragma once
// Projection to the vocabulary and cross entropy in one: logits h W^T, loss = -log(softmax(logits)[label]). Forward beside backward, in
// chunks of tokens, so that the logits of a large batch never exist at once. Shapes that do not fit and too little memory are errors; a
// label that is neither ignored nor in the vocabulary is an input error that names it and its position.
// Legend: N tokens, R tokens of a chunk, C channels, V vocabulary, S elements from a row of logits to the next.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/kernel/arch/tiles_head.hpp"
#include "lockstep/kernel/cross_entropy.hpp"
#include "lockstep/kernel/gemm.hpp"
#include "lockstep/kernel/head_chunk.hpp"

namespace lockstep::kernel {

/// What is kept of the logits that this weight gives.
template <class T>
LogitStorage logit_storage([[maybe_unused]] state::Matrix<T const> w) noexcept {  // [V,C]
#if LOCKSTEP_TILES
    if constexpr (std::same_as<T, precision::bfloat16>)
        if (detail::in_tiles<arch::ForwardWeights>(w)) return {sizeof(T), true};
#endif
    return {sizeof(precision::accumulator<T>), false};
}

namespace detail {

template <class T, class A>
void require_head(char const* kernel, View<T, 2> h, std::size_t vocab, std::size_t channels, std::span<std::int32_t const> labels,
                  View<A, 1> loss, View<A, 1> lse) {
    static_assert(std::same_as<A, precision::accumulator<T>>,
                  "lockstep: losses must be in the accumulator of h; see lockstep/kernel/head_loss.hpp");
    require_extent(kernel, "columns of h", h.extent(1), channels);
    require_labels(kernel, labels, h.extent(0), vocab, vocab);
    require_shape(kernel, "loss", loss, h.extent(0));
    require_shape(kernel, "lse", lse, h.extent(0));
}

inline void require_memory(char const* kernel, std::span<std::byte> memory, HeadChunk chunk) {
    require(memory.size() >= chunk.bytes, kernel, ": memory must have ", chunk.bytes, " bytes, found ", memory.size());
}

template <class A>
View<A, 1> part(View<A, 1> values, std::size_t begin, std::size_t end) {
    return {values.data() + begin, {end - begin}};
}

/// Calls body(begin, end) for each chunk of tokens.
template <class Body>
void for_each_chunk(std::size_t tokens, std::size_t rows, Body const& body) {
    for (std::size_t begin = 0; begin < tokens; begin += rows) body(begin, std::min(tokens, begin + rows));
}

/// Logits of a chunk in memory for HeadChunk::bytes.
template <class T, class A = precision::accumulator<T>>
View<A, 2> chunk_logits(View<T, 2> h, state::Matrix<T const> w, std::span<std::byte> memory) {  // (R,C), [V,C]
    std::size_t const stride = logit_stride(w.rows());
    View<A, 2> const  logits(reinterpret_cast<A*>(memory.data()), {h.extent(0), w.rows()}, {stride, 1});  // (R,V), S apart
    gemm_forward(h, w, View<T const, 1>{}, logits);
    return logits;
}

}  // namespace detail

/// loss = -log(softmax(h W^T)[label]) of each token, and the logarithm of the sum of exponentials. Both 0 where the label is ignored.
/// `memory` holds head_chunk(N, V, logit_storage(w)).bytes, or on tiles nothing.
template <class T, class A>
void head_loss(View<T, 2>                    h,       // (N,C)
               state::Matrix<T const>        w,       // [V,C]
               std::span<std::int32_t const> labels,  // (N)
               View<A, 1>                    loss,    // (N)
               View<A, 1>                    lse,     // (N)
               std::span<std::byte>          memory) {
    std::size_t const  tokens = h.extent(0), vocab = w.rows();
    LogitStorage const storage = logit_storage(w);
    HeadChunk const    chunk   = head_chunk(tokens, vocab, storage);
    detail::require_head("head_loss", h, vocab, w.columns(), labels, loss, lse);
    if (!storage.tiles) detail::require_memory("head_loss", memory, chunk);
    detail::for_each_chunk(tokens, chunk.rows, [&](std::size_t begin, std::size_t end) {
        auto const x        = h.rows(begin, end);  // (R,C)
        auto const y        = labels.subspan(begin, end - begin);
        auto const losses   = detail::part(loss, begin, end);
        auto const log_sums = detail::part(lse, begin, end);
#if LOCKSTEP_TILES
        if constexpr (std::same_as<T, precision::bfloat16>)
            if (storage.tiles) return arch::head_loss(arch::tiles{}, x, arch::ForwardWeights(w), y, losses, log_sums);
#endif
        cross_entropy_forward(detail::chunk_logits(x, w, memory), vocab, y, losses, log_sums);
    });
}

/// The same, with the gradients of `scale` times the sum of the losses: dw += dlogits^T h, dh = dlogits W. `w_input_grad` is the weight in
/// the order that input gradients prefer. `memory` holds head_chunk(N, V, logit_storage(w)).bytes.
template <class T, class A>
void head_loss_backward(View<T, 2>                    h,             // (N,C)
                        state::Matrix<T const>        w,             // [V,C]
                        state::Matrix<T const>        w_input_grad,  // [V,C]
                        std::span<std::int32_t const> labels,        // (N)
                        A scale, View<A, 1> loss,                    // (N)
                        View<A, 1>           lse,                    // (N)
                        state::Matrix<A>     dw,                     // [V,C]
                        View<T, 2>           dh,                     // (N,C)
                        std::span<std::byte> memory) {
    std::size_t const  tokens = h.extent(0), vocab = w.rows();
    LogitStorage const storage = logit_storage(w);
    HeadChunk const    chunk   = head_chunk(tokens, vocab, storage);
    detail::require_head("head_loss_backward", h, vocab, w.columns(), labels, loss, lse);
    require_shape("head_loss_backward", "dh", dh, tokens, w.columns());
    require(dw.rows() == vocab && dw.columns() == w.columns(), "head_loss_backward: dw must be ", vocab, " x ", w.columns(), ", found ",
            dw.rows(), " x ", dw.columns());
    detail::require_memory("head_loss_backward", memory, chunk);
    detail::for_each_chunk(tokens, chunk.rows, [&](std::size_t begin, std::size_t end) {
        auto const x        = h.rows(begin, end);   // (R,C)
        auto const dx       = dh.rows(begin, end);  // (R,C)
        auto const y        = labels.subspan(begin, end - begin);
        auto const losses   = detail::part(loss, begin, end);
        auto const log_sums = detail::part(lse, begin, end);
#if LOCKSTEP_TILES
        if constexpr (std::same_as<T, precision::bfloat16>)
            if (storage.tiles) {
                require(arch::in_blocks(dw.map, state::TileOrder::rows),
                        "head_loss_backward: dw in tiles of 32 x 32 expected beside a packed weight");
                return arch::head_loss_backward(arch::tiles{}, x, arch::ForwardWeights(w), arch::InputGradWeights(w_input_grad), y, scale,
                                                losses, log_sums, dw, dx, reinterpret_cast<T*>(memory.data()));
            }
#endif
        auto const logits = detail::chunk_logits(x, w, memory), dlogits = logits;  // (R,V)
        cross_entropy_forward(logits, vocab, y, losses, log_sums);
        cross_entropy_backward(logits, vocab, y, log_sums, scale, dlogits);
        gemm_weight_grad(dlogits, x, dw, View<A, 1>{});
        gemm_input_grad(dlogits, w_input_grad, dx);
    });
}

}  // namespace lockstep::kernel
