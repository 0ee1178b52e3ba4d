#pragma once
// GPT-2 (Radford et al. 2019): LayerNorm with bias, learned positions, GELU in tanh form, head tied to the embedding.

#include <cmath>

#include "lockstep/nn/attention.hpp"
#include "lockstep/nn/feed_forward.hpp"
#include "lockstep/nn/gpt2_sizes.hpp"
#include "lockstep/nn/linear.hpp"
#include "lockstep/nn/normalize.hpp"
#include "lockstep/nn/residual.hpp"
#include "lockstep/nn/sequential.hpp"
#include "lockstep/nn/transformer.hpp"

namespace lockstep::nn {

struct Gpt2Architecture {
    static constexpr state::Architecture kind = state::Architecture::gpt2;

    using Norm      = LayerNorm;
    using Attention = Sequential<LayerNorm, Linear, CausalAttention, Linear, Dropout>;
    using Mlp       = Sequential<LayerNorm, GeluFeedForward, Dropout>;
    using Block     = Sequential<Residual<Attention>, Residual<Mlp>>;

    static Embedding embedding(state::ModelSizes const& s, ModelOptions const& o) {
        return {"wte", "wpe", s.vocab, s.sequence, s.dim, {o.dropout}};
    }

    static Block block(state::ModelSizes const& s, ModelOptions const& o) {
        double const eps        = s.norm_eps;
        float const  projection = 0.02f / std::sqrt(2.0f * static_cast<float>(s.layers));
        Heads const  heads{s.heads, s.kv_heads, s.dim / s.heads};
        return Block{
            {Attention{LayerNorm{"ln_1", s.dim, eps}, Linear{"attn.c_attn", s.dim, heads.projected()},
                       CausalAttention{"attn", heads, o.dropout}, Linear{"attn.c_proj", s.dim, s.dim, true, projection},
                       Dropout{o.dropout}}},
            {Mlp{LayerNorm{"ln_2", s.dim, eps},
                 GeluFeedForward{Linear{"mlp.c_fc", s.dim, s.ffn}, "mlp.gelu", Linear{"mlp.c_proj", s.ffn, s.dim, true, projection}},
                 Dropout{o.dropout}}}};
    }

    static Head<Norm> head(state::ModelSizes const& s) { return {LayerNorm{"ln_f", s.dim, s.norm_eps}, "", s.vocab, s.dim}; }
};

template <class Storage = tensor::ArenaStorage>
using Gpt2 = Transformer<Storage, Gpt2Architecture>;
static_assert(module<Gpt2Architecture::Block> && model<Gpt2<tensor::ArenaStorage>, float>);

}  // namespace lockstep::nn
