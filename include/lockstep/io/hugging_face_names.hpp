#pragma once
// Where Hugging Face files keep the parameters of gpt2 and llama models.
// Legend: C dim, F feed-forward, V vocabulary, T sequence, H heads, K key/value heads, D head size.

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/state/model_sizes.hpp"

namespace lockstep::io {

/// One tensor of a file: rows [row_begin, row_end) of a parameter [rows, columns].
struct HfTensor {
    std::string name;
    bool        transposed = false;  // the file holds [columns, rows]
    std::size_t row_begin  = 0;
    std::size_t row_end    = 0;
    std::size_t columns    = 1;
    int         dimensions = 2;

    std::size_t rows() const noexcept { return row_end - row_begin; }

    /// Its shape in the file.
    std::vector<std::uint64_t> shape() const {
        if (dimensions == 1) return {rows()};
        if (transposed) return {columns, rows()};
        return {rows(), columns};
    }
};

/// What full models put before every name but the head's; files of the bare model lack it.
constexpr std::string_view hugging_face_prefix(state::Architecture arch) noexcept {
    return arch == state::Architecture::gpt2 ? "transformer." : "model.";
}

namespace detail {

/// "h.3.attn.c_attn.weight": layer 3, local name "attn.c_attn.weight". The root's names have no layer.
struct LocalName {
    std::optional<std::size_t> layer;
    std::string_view           local;
};

inline LocalName local_name(std::string_view name) noexcept {
    if (!name.starts_with("h.")) return {{}, name};
    std::size_t layer           = 0;
    auto const [after, problem] = std::from_chars(name.data() + 2, name.data() + name.size(), layer);
    auto const used             = static_cast<std::size_t>(after - name.data());
    if (problem != std::errc{} || used >= name.size() || *after != '.') return {{}, name};
    return {layer, name.substr(used + 1)};
}

struct Gpt2Name {
    std::string_view local;
    bool             root, transposed;
    std::size_t      rows, columns;  // 0 columns: a vector
};

inline std::vector<HfTensor> gpt2_tensors(state::ModelSizes const& s, LocalName where) {
    std::size_t const C = s.dim, F = s.ffn;
    for (auto const& row : std::array<Gpt2Name, 16>{{{"wte", true, false, s.vocab, C},
                                                     {"wpe", true, false, s.sequence, C},
                                                     {"ln_f.weight", true, false, C, 0},
                                                     {"ln_f.bias", true, false, C, 0},
                                                     {"ln_1.weight", false, false, C, 0},
                                                     {"ln_1.bias", false, false, C, 0},
                                                     {"attn.c_attn.weight", false, true, 3 * C, C},
                                                     {"attn.c_attn.bias", false, false, 3 * C, 0},
                                                     {"attn.c_proj.weight", false, true, C, C},
                                                     {"attn.c_proj.bias", false, false, C, 0},
                                                     {"ln_2.weight", false, false, C, 0},
                                                     {"ln_2.bias", false, false, C, 0},
                                                     {"mlp.c_fc.weight", false, true, F, C},
                                                     {"mlp.c_fc.bias", false, false, F, 0},
                                                     {"mlp.c_proj.weight", false, true, C, F},
                                                     {"mlp.c_proj.bias", false, false, C, 0}}}) {
        if (row.local != where.local || row.root == where.layer.has_value()) continue;
        std::string name(hugging_face_prefix(s.arch));
        if (where.layer) name += "h." + std::to_string(*where.layer) + ".";
        name += row.local;
        if (row.local == "wte" || row.local == "wpe") name += ".weight";
        return {{name, row.transposed, 0, row.rows, row.columns != 0 ? row.columns : 1, row.columns != 0 ? 2 : 1}};
    }
    return {};
}

inline std::vector<HfTensor> llama_tensors(state::ModelSizes const& s, LocalName where) {
    std::size_t const      C = s.dim, F = s.ffn, D = s.head_size(), q = s.heads * D, kv = s.kv_heads * D;
    std::string const      prefix(hugging_face_prefix(s.arch));
    std::string_view const local = where.local;
    if (!where.layer) {
        if (local == "embed_tokens") return {{prefix + "embed_tokens.weight", false, 0, s.vocab, C, 2}};
        if (local == "norm.weight") return {{prefix + "norm.weight", false, 0, C, 1, 1}};
        if (local == "lm_head") return {{"lm_head.weight", false, 0, s.vocab, C, 2}};
        return {};
    }
    std::string const layer = prefix + "layers." + std::to_string(*where.layer) + ".";
    if (local == "input_layernorm.weight" || local == "post_attention_layernorm.weight")
        return {{layer + std::string(local), false, 0, C, 1, 1}};
    if (local == "self_attn.qkv.weight")
        return {{layer + "self_attn.q_proj.weight", false, 0, q, C, 2},
                {layer + "self_attn.k_proj.weight", false, q, q + kv, C, 2},
                {layer + "self_attn.v_proj.weight", false, q + kv, q + 2 * kv, C, 2}};
    if (local == "self_attn.o_proj.weight") return {{layer + std::string(local), false, 0, C, q, 2}};
    if (local == "mlp.gate_up.weight")
        return {{layer + "mlp.gate_proj.weight", false, 0, F, C, 2}, {layer + "mlp.up_proj.weight", false, F, 2 * F, C, 2}};
    if (local == "mlp.down_proj.weight") return {{layer + std::string(local), false, 0, C, F, 2}};
    return {};
}

}  // namespace detail

/// The tensors that make up a parameter, in the order of its rows; their rows are all of its rows that a file knows.
inline std::vector<HfTensor> hugging_face_tensors(state::ModelSizes const& sizes, std::string_view parameter) {
    detail::LocalName const where = detail::local_name(parameter);
    std::vector<HfTensor>   tensors;
    if (!where.layer || *where.layer < sizes.layers)
        tensors = sizes.arch == state::Architecture::gpt2 ? detail::gpt2_tensors(sizes, where) : detail::llama_tensors(sizes, where);
    if (tensors.empty())
        input_error("parameter ", parameter, " has no Hugging Face name in a ", name(sizes.arch), " model of ", sizes.layers, " layers");
    return tensors;
}

/// The parameters of every block, by their local names.
inline std::span<std::string_view const> block_parameters(state::Architecture arch) noexcept {
    static constexpr std::array<std::string_view, 12> gpt2{
        "ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
        "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight",    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias"};
    static constexpr std::array<std::string_view, 6> llama{"input_layernorm.weight",  "self_attn.qkv.weight",
                                                           "self_attn.o_proj.weight", "post_attention_layernorm.weight",
                                                           "mlp.gate_up.weight",      "mlp.down_proj.weight"};
    if (arch == state::Architecture::gpt2) return gpt2;
    return llama;
}

/// A name without the prefix: what files with and without it have in common.
constexpr std::string_view bare_name(state::Architecture arch, std::string_view name) noexcept {
    std::string_view const prefix = hugging_face_prefix(arch);
    return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

/// Constants that old files carry along: the causal mask, the frequencies of the rotation.
constexpr bool is_buffer(state::Architecture arch, std::string_view bare) noexcept {
    if (arch == state::Architecture::gpt2)
        return bare.starts_with("h.") && (bare.ends_with(".attn.bias") || bare.ends_with(".attn.masked_bias"));
    return bare.ends_with("rotary_emb.inv_freq");
}

}  // namespace lockstep::io
