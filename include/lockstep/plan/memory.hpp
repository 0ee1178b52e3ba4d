#pragma once
// Memory of a step, predicted from sizes.

#include <algorithm>
#include <cstdint>

#include "lockstep/state/model_sizes.hpp"
#include "lockstep/tensor/row_stride.hpp"

namespace lockstep::plan {

/// Bytes of activations at the peak of a micro-step of `rows` sequences: what all blocks save, the logits of a chunk, and the
/// temporaries of the backward pass of one block. `element` is the size of the compute type.
/// Legend: C channels, F feed-forward, P projected queries, keys and values, per token, with the gaps between rows.
constexpr std::uint64_t activation_bytes(state::ModelSizes const& s, std::size_t rows, std::size_t sequence, std::size_t element,
                                         bool recompute) noexcept {
    std::uint64_t const tokens = rows * sequence;
    bool const          llama  = s.arch == state::Architecture::llama;
    auto const          row    = [&](std::size_t columns) { return tensor::row_stride(columns, element); };
    std::uint64_t const c = row(s.dim), f = row(s.ffn), p = row((s.heads + 2 * s.kv_heads) * s.head_size());
    std::uint64_t const wide = llama ? row(2 * s.ffn) : f;  // before the non-linearity
    std::uint64_t const block =
        (5 * c + p + wide + f) * element + 4 * s.heads + (llama ? 8 : 16);  // norm, qkv, attention, sum, norm, ffn, sum
    std::uint64_t const temporary = (6 * c + p + wide + f) * element;       // their gradients
    std::uint64_t const saved     = recompute ? s.layers * c * element + block : s.layers * block;
    std::uint64_t const head      = 2 * c * element + 16;
    std::uint64_t const padded    = (s.vocab + 15) / 16 * 16;
    std::uint64_t const logits =
        std::min<std::uint64_t>(tokens, std::max<std::uint64_t>(64, (std::uint64_t{64} << 20) / 4 / padded)) * padded * 4;
    return tokens * (saved + head + temporary + c * element) + logits;
}

}  // namespace lockstep::plan
