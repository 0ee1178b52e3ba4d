#pragma once
// The units of a gpt2 and of a llama model as tables of parameters, with values that tell every element from every other.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/state/model_sizes.hpp"
#include "lockstep/state/unit.hpp"

namespace lockstep::test {

/// dim == heads x head size, and square matrices, on purpose: a missing transposition passes every check of shapes.
inline state::ModelSizes gpt2_sizes() { return {.layers = 2, .heads = 3, .kv_heads = 3, .dim = 12, .ffn = 20, .vocab = 17, .sequence = 9}; }
inline state::ModelSizes llama_sizes() {
    return {.arch       = state::Architecture::llama,
            .layers     = 2,
            .heads      = 4,
            .kv_heads   = 2,
            .dim        = 16,
            .ffn        = 24,
            .vocab      = 19,
            .sequence   = 32,
            .rope_theta = 5000,
            .tied       = false};
}

inline std::vector<state::Unit> units(state::ModelSizes const& s) {
    using Extents = std::pair<std::size_t, std::size_t>;  // 0 columns: a vector
    std::vector<state::Unit> result;
    std::size_t const        C = s.dim, F = s.ffn, q = s.heads * s.head_size(), kv = s.kv_heads * s.head_size();
    auto const               unit = [&](std::string const& name, std::vector<std::pair<char const*, Extents>> const& table) {
        state::Unit made{name, {}, 0, name == "root"};
        for (auto const& [local, extents] : table) {
            state::Parameter parameter;
            parameter.name       = made.root ? local : name + "." + local;
            parameter.rows       = extents.first;
            parameter.columns    = extents.second != 0 ? extents.second : 1;
            parameter.dimensions = extents.second != 0 ? 2 : 1;
            parameter.map        = state::MatrixMap(parameter.rows, parameter.columns);
            parameter.offset     = made.size;
            made.size += parameter.size();
            made.parameters.push_back(parameter);
        }
        result.push_back(made);
    };
    bool const gpt2 = s.arch == state::Architecture::gpt2;
    if (gpt2)
        unit("root", {{"wte", {s.vocab, C}}, {"wpe", {s.sequence, C}}, {"ln_f.weight", {C, 0}}, {"ln_f.bias", {C, 0}}});
    else
        unit("root", {{"embed_tokens", {s.vocab, C}}, {"norm.weight", {C, 0}}, {"lm_head", {s.vocab, C}}});
    for (std::size_t i = 0; i < s.layers; ++i) {
        if (gpt2)
            unit("h." + std::to_string(i), {{"ln_1.weight", {C, 0}},
                                            {"ln_1.bias", {C, 0}},
                                            {"attn.c_attn.weight", {3 * C, C}},
                                            {"attn.c_attn.bias", {3 * C, 0}},
                                            {"attn.c_proj.weight", {C, C}},
                                            {"attn.c_proj.bias", {C, 0}},
                                            {"ln_2.weight", {C, 0}},
                                            {"ln_2.bias", {C, 0}},
                                            {"mlp.c_fc.weight", {F, C}},
                                            {"mlp.c_fc.bias", {F, 0}},
                                            {"mlp.c_proj.weight", {C, F}},
                                            {"mlp.c_proj.bias", {C, 0}}});
        else
            unit("h." + std::to_string(i), {{"input_layernorm.weight", {C, 0}},
                                            {"self_attn.qkv.weight", {q + 2 * kv, C}},
                                            {"self_attn.o_proj.weight", {C, q}},
                                            {"post_attention_layernorm.weight", {C, 0}},
                                            {"mlp.gate_up.weight", {2 * F, C}},
                                            {"mlp.down_proj.weight", {C, F}}});
    }
    return result;
}

/// Another number for each parameter, row and column; exact in float.
inline float value(std::string const& parameter, std::size_t row, std::size_t column) {
    std::uint32_t hash = 7;
    for (char const c : parameter) hash = hash * 31 + static_cast<unsigned char>(c);
    return static_cast<float>(hash % 64 * 65536 + row * 256 + column) * 0x1p-20f;
}

inline void fill(state::Parameter const& parameter, std::span<float> values) {
    for (std::size_t row = 0; row < parameter.rows; ++row)
        for (std::size_t column = 0; column < parameter.columns; ++column)
            values[row * parameter.columns + column] = value(parameter.name, row, column);
}

}  // namespace lockstep::test
