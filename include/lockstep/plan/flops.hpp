#pragma once
// How many parameters a model has and how many operations a token of it costs.

#include <cstdint>

#include "lockstep/state/model_sizes.hpp"

namespace lockstep::plan {

/// Parameters that multiply: the head counts, tables that are only looked up do not.
constexpr std::uint64_t matmul_parameters(state::ModelSizes const& s) noexcept {
    std::uint64_t const projected = (s.heads + 2 * s.kv_heads) * s.head_size();
    std::uint64_t const feed      = (s.arch == state::Architecture::llama ? 3 : 2) * s.dim * s.ffn;
    return s.layers * (projected * s.dim + s.dim * s.dim + feed) + s.vocab * s.dim;
}

/// All parameters.
constexpr std::uint64_t parameter_count(state::ModelSizes const& s) noexcept {
    std::uint64_t const projected = (s.heads + 2 * s.kv_heads) * s.head_size();
    if (s.arch == state::Architecture::llama) return matmul_parameters(s) + s.vocab * s.dim + (2 * s.layers + 1) * s.dim;
    return matmul_parameters(s) + s.sequence * s.dim + s.layers * (projected + s.dim + s.ffn + s.dim + 4 * s.dim) + 2 * s.dim;
}

/// 6 N + 6 L C T: forward and backward of a token, causal attention counted as half (llm.c's formula).
constexpr double flops_per_token(state::ModelSizes const& s, std::size_t sequence) noexcept {
    return 6.0 * static_cast<double>(matmul_parameters(s)) + 6.0 * static_cast<double>(s.layers * s.dim * sequence);
}

}  // namespace lockstep::plan
