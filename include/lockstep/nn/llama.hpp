#pragma once
// Llama (Touvron et al. 2023, arXiv:2302.13971): RMSNorm, rotary positions, SwiGLU, grouped-query attention, untied head, no biases.

#include <cmath>

#include "lockstep/nn/activation.hpp"
#include "lockstep/nn/attention.hpp"
#include "lockstep/nn/linear.hpp"
#include "lockstep/nn/normalize.hpp"
#include "lockstep/nn/residual.hpp"
#include "lockstep/nn/sequential.hpp"
#include "lockstep/nn/transformer.hpp"

namespace lockstep::nn {

/// Queries, keys and values are the rows of one matrix; so are gate and up.
struct LlamaArchitecture {
    static constexpr state::Architecture kind = state::Architecture::llama;

    using Norm      = RmsNorm;
    using Attention = Sequential<RmsNorm, Linear, Rotary, CausalAttention, Linear, Dropout>;
    using Mlp       = Sequential<RmsNorm, Linear, SwiGlu, Linear, Dropout>;
    using Block     = Sequential<Residual<Attention>, Residual<Mlp>>;

    static Embedding embedding(state::ModelSizes const& s, ModelOptions const& o) {
        return {"embed_tokens", "", s.vocab, s.sequence, s.dim, {o.dropout}};
    }

    static Block block(state::ModelSizes const& s, ModelOptions const& o) {
        double const eps        = s.norm_eps;
        float const  projection = 0.02f / std::sqrt(2.0f * static_cast<float>(s.layers));
        Heads const  heads{s.heads, s.kv_heads, s.dim / s.heads};
        return Block{{Attention{RmsNorm{"input_layernorm", s.dim, eps}, Linear{"self_attn.qkv", s.dim, heads.projected(), false},
                                Rotary{heads, s.rope_theta}, CausalAttention{"self_attn", heads, o.dropout},
                                Linear{"self_attn.o_proj", s.dim, s.dim, false, projection}, Dropout{o.dropout}}},
                     {Mlp{RmsNorm{"post_attention_layernorm", s.dim, eps}, Linear{"mlp.gate_up", s.dim, 2 * s.ffn, false},
                          SwiGlu{"mlp.swiglu"}, Linear{"mlp.down_proj", s.ffn, s.dim, false, projection}, Dropout{o.dropout}}}};
    }

    static Head<Norm> head(state::ModelSizes const& s) { return {RmsNorm{"norm", s.dim, s.norm_eps}, "lm_head", s.vocab, s.dim}; }
};

template <class Storage = tensor::ArenaStorage>
using Llama = Transformer<Storage, LlamaArchitecture>;
static_assert(module<LlamaArchitecture::Block> && model<Llama<tensor::ArenaStorage>, float>);

}  // namespace lockstep::nn
