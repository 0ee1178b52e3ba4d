#pragma once
// Memory of a step, predicted from sizes.

#include <algorithm>
#include <cstdint>

#include "lockstep/kernel/head_chunk.hpp"
#include "lockstep/runtime/parallel_for.hpp"  // grain
#include "lockstep/runtime/scratch.hpp"
#include "lockstep/state/model_sizes.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "lockstep/tensor/row_stride.hpp"

namespace lockstep::plan {

/// Bytes of activations at the peak of a micro-step of `rows` sequences: what all blocks save, and the larger of what the head needs and
/// what the backward pass of a block does. `element` is the size of the compute type, `logits` says what is kept of a chunk's.
/// Legend: C channels, F feed-forward, P projected queries, keys and values, per token, with the gaps between rows.
constexpr std::uint64_t activation_bytes(state::ModelSizes const& s, std::size_t rows, std::size_t sequence, std::size_t element,
                                         bool recompute, kernel::LogitStorage logits = {}) noexcept {
    std::uint64_t const tokens = rows * sequence;
    bool const          llama  = s.arch == state::Architecture::llama;
    auto const          row    = [&](std::size_t columns) { return tensor::row_stride(columns, element); };
    std::uint64_t const c = row(s.dim), f = row(s.ffn), p = row((s.heads + 2 * s.kv_heads) * s.head_size());
    std::uint64_t const wide = llama ? row(2 * s.ffn) : f;  // before the non-linearity
    std::uint64_t const block =
        (5 * c + p + wide + f) * element + 4 * s.heads + (llama ? 8 : 16);           // norm, qkv, attention, sum, norm, ffn, sum
    std::uint64_t const gradients = (7 * c + p + wide + (llama ? f : 0)) * element;  // of all these; that of the GELU is never there
    std::uint64_t const saved     = c * element + s.layers * (recompute ? c * element : block);
    std::uint64_t const head      = tokens * (3 * c * element + 16) + kernel::head_chunk(tokens, s.vocab, logits).bytes;
    return tokens * saved + std::max(head, tokens * (gradients + (recompute ? block : 0)));
}

/// Bytes by which a rank grows in its first step: the arena holds whole blocks, and each thread that gets work a block of scratch.
constexpr std::uint64_t step_bytes(state::ModelSizes const& s, std::size_t rows, std::size_t sequence, std::uint64_t activations,
                                   std::size_t threads) noexcept {
    std::uint64_t const widest = rows * sequence * s.dim * std::max(s.ffn, s.vocab);  // multiply-adds of the largest product
    std::uint64_t const busy   = std::clamp<std::uint64_t>(widest / (8 * runtime::grain), 1, threads);
    return tensor::ArenaStorage::Workspace::held_for(activations) + busy * runtime::ScratchStack::least;
}

}  // namespace lockstep::plan
