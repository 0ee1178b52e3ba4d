#pragma once
// config.json of Hugging Face models, to and from ModelSizes. Whatever changes the numbers and is not supported is refused by name.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

#include "lockstep/io/dtype.hpp"
#include "lockstep/io/file.hpp"
#include "lockstep/io/json.hpp"
#include "lockstep/state/model_sizes.hpp"

namespace lockstep::io {

namespace detail {

/// A setting that must be what lockstep computes, or absent.
inline void expect_boolean(JsonObject const& config, std::string const& key, bool only, bool fallback) {
    if (config.boolean(key, fallback) != only) config.refuse(key, "must be ", only ? "true" : "false", ", found ", only ? "false" : "true");
}
inline void expect_string(JsonObject const& config, std::string const& key, std::initializer_list<std::string_view> accepted,
                          std::string const& fallback) {
    std::string const found = config.string(key, fallback);
    if (std::ranges::find(accepted, found) == accepted.end())
        config.refuse(key, "must be ", *accepted.begin(), ", found ", printable(found));
}

/// A rotation that is plain: no scaling of positions, all of each head rotated.
inline void expect_plain_rotation(JsonObject const& config, std::string const& key) {
    if (!config.has(key)) return;
    JsonObject const rope = config.object(key);
    for (char const* type : {"rope_type", "type"})
        if (rope.has(type) && rope.string(type) != "default")
            config.refuse(key, "must have ", type, " default, found ", printable(rope.string(type)));
    if (!rope.has("rope_type") && !rope.has("type") && rope.has("factor")) config.refuse(key, "must not scale, found a factor");
    if (rope.number("partial_rotary_factor", 1.0) != 1.0) config.refuse(key, "must rotate whole heads, found a partial_rotary_factor");
}

inline state::ModelSizes gpt2_sizes(JsonObject const& config) {
    state::ModelSizes s{.arch = state::Architecture::gpt2, .tied = true};
    s.layers   = config.unsigned_integer("n_layer");
    s.heads    = config.unsigned_integer("n_head");
    s.kv_heads = s.heads;
    s.dim      = config.unsigned_integer("n_embd");
    s.vocab    = config.unsigned_integer("vocab_size");
    s.sequence = config.unsigned_integer(config.has("n_positions") || !config.has("n_ctx") ? "n_positions" : "n_ctx");
    s.norm_eps = config.number("layer_norm_epsilon", 1e-5);
    if (s.dim > state::ModelSizes::largest) config.refuse("n_embd", "must be at most ", state::ModelSizes::largest, ", found ", s.dim);
    s.ffn = config.unsigned_integer("n_inner", 4 * s.dim);
    expect_string(config, "activation_function", {"gelu_new", "gelu_pytorch_tanh"}, "gelu_new");
    expect_boolean(config, "tie_word_embeddings", true, true);
    expect_boolean(config, "scale_attn_weights", true, true);
    expect_boolean(config, "scale_attn_by_inverse_layer_idx", false, false);
    expect_boolean(config, "add_cross_attention", false, false);
    return s;
}

inline state::ModelSizes llama_sizes(JsonObject const& config) {
    state::ModelSizes s{.arch = state::Architecture::llama, .tied = false};
    s.layers   = config.unsigned_integer("num_hidden_layers");
    s.heads    = config.unsigned_integer("num_attention_heads");
    s.kv_heads = config.unsigned_integer("num_key_value_heads", s.heads);
    s.dim      = config.unsigned_integer("hidden_size");
    s.ffn      = config.unsigned_integer("intermediate_size");
    s.vocab    = config.unsigned_integer("vocab_size");
    s.sequence = config.unsigned_integer("max_position_embeddings");
    s.norm_eps = config.number("rms_norm_eps", 1e-6);
    for (char const* key : {"rope_parameters", "rope_scaling"}) expect_plain_rotation(config, key);
    if (config.number("partial_rotary_factor", 1.0) != 1.0)
        config.refuse("partial_rotary_factor", "must be 1, which rotates whole heads, found ", config.number("partial_rotary_factor"));
    s.rope_theta = config.number("rope_theta", 10000.0);
    if (config.has("rope_parameters")) s.rope_theta = config.object("rope_parameters").number("rope_theta", s.rope_theta);
    expect_string(config, "hidden_act", {"silu", "swish"}, "silu");
    expect_boolean(config, "tie_word_embeddings", false, false);
    expect_boolean(config, "attention_bias", false, false);
    expect_boolean(config, "mlp_bias", false, false);
    if (config.has("head_dim") && s.heads != 0 && config.unsigned_integer("head_dim") != s.dim / s.heads)
        config.refuse("head_dim", "must be hidden_size / num_attention_heads = ", s.dim / s.heads, ", found ",
                      config.unsigned_integer("head_dim"));
    return s;
}

}  // namespace detail

/// The sizes that the text of a config.json gives; keys that do not change the numbers are ignored. `name` is the file's, for messages.
inline state::ModelSizes parse_config(std::string_view text, std::string const& name) {
    Json const        json = parse_json(text, name);
    JsonObject const  config(json, name);
    std::string const type = config.string("model_type");
    auto const        arch = state::find_architecture(type);
    if (!arch) config.refuse("model_type", "must be gpt2 or llama, found ", printable(type));
    if (config.has("quantization_config"))
        config.refuse("quantization_config", "must be absent because quantized weights are not supported, found ",
                      JsonObject::shown(json.at("quantization_config")));
    state::ModelSizes const sizes = *arch == state::Architecture::gpt2 ? detail::gpt2_sizes(config) : detail::llama_sizes(config);
    sizes.validate(name);
    return sizes;
}

inline state::ModelSizes read_config(std::filesystem::path const& path) { return parse_config(read_text(path, 1 << 20), path.string()); }

/// The text of a config.json that transformers and `read_config` accept, for weights stored as `dtype` (F32, BF16 or F16).
inline std::string config_text(state::ModelSizes const& s, Dtype dtype = Dtype::f32) {
    s.validate();
    bool const             gpt2 = s.arch == state::Architecture::gpt2;
    std::size_t const      last = s.vocab - 1;  // token numbers must be below the vocabulary's size
    nlohmann::ordered_json c;
    c["model_type"]    = name(s.arch);
    c["architectures"] = {gpt2 ? "GPT2LMHeadModel" : "LlamaForCausalLM"};
    c["vocab_size"]    = s.vocab;
    if (gpt2) {
        c["n_positions"]         = s.sequence;
        c["n_ctx"]               = s.sequence;
        c["n_embd"]              = s.dim;
        c["n_layer"]             = s.layers;
        c["n_head"]              = s.heads;
        c["n_inner"]             = s.ffn;
        c["activation_function"] = "gelu_new";
        c["layer_norm_epsilon"]  = s.norm_eps;
        c["resid_pdrop"] = c["embd_pdrop"] = c["attn_pdrop"] = 0.0;
        c["bos_token_id"] = c["eos_token_id"] = last;
    } else {
        c["hidden_size"]             = s.dim;
        c["intermediate_size"]       = s.ffn;
        c["num_hidden_layers"]       = s.layers;
        c["num_attention_heads"]     = s.heads;
        c["num_key_value_heads"]     = s.kv_heads;
        c["head_dim"]                = s.head_size();
        c["hidden_act"]              = "silu";
        c["max_position_embeddings"] = s.sequence;
        c["rms_norm_eps"]            = s.norm_eps;
        c["rope_theta"]              = s.rope_theta;  // for transformers 4; the next line for 5
        c["rope_parameters"]         = {{"rope_type", "default"}, {"rope_theta", s.rope_theta}};
        c["attention_bias"] = c["mlp_bias"] = false;
        c["attention_dropout"]              = 0.0;
        c["bos_token_id"]                   = std::min<std::size_t>(1, last);
        c["eos_token_id"]                   = std::min<std::size_t>(2, last);
    }
    c["initializer_range"]   = 0.02;
    c["tie_word_embeddings"] = s.tied;
    c["torch_dtype"]         = dtype == Dtype::bf16 ? "bfloat16" : dtype == Dtype::f16 ? "float16" : "float32";
    return c.dump(2) + "\n";
}

}  // namespace lockstep::io
