// A module of your own is one struct: forward beside backward, and what the first saves for the second. This is the squared ReLU,
// y = max(0, x)^2 (So et al. 2021, arXiv:2109.08668), in the place of GELU in a GPT-2 block. The program checks its gradient against
// finite differences, then trains a tiny GPT with it.

#include <algorithm>
#include <cstdio>

#include "lockstep/data/token_stream.hpp"
#include "lockstep/nn/gpt2.hpp"
#include "lockstep/nn/gradient_check.hpp"
#include "lockstep/optim/adamw.hpp"
#include "lockstep/parallel/single.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/train/trainer.hpp"

namespace ls = lockstep;
using ls::nn::View;

/// Legend: N tokens, F features.
struct SquaredRelu {
    std::string name;

    /// What forward leaves for backward: views of memory that stays as it is until then.
    template <class T>
    struct Saved {
        View<T, 2> x;  // (N,F)
    };

    /// A module with weights would add them here, as nn/linear.hpp does, and call pass.contributed for each in backward.
    void declare(ls::nn::Declaration&) const {}

    /// T is the compute type: float, double, bfloat16 or float16. New tensors come from the pass; nothing is allocated in a step.
    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        saved.x = x;
        auto y  = pass.activation(x.extent(0), x.extent(1));  // (N,F)
        for_each_row(x, [&](std::size_t n) {
            auto const in = x.row(n), out = y.row(n);
            for (std::size_t f = 0; f < in.size(); ++f) {
                auto const positive = std::max(wide(in[f]), wide(T{}));
                out[f]              = T(positive * positive);
            }
        });
        return y;
    }

    /// The same list of loops for the gradient: dx = dy * 2 max(0, x). dy is somebody else's and stays as it is.
    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        auto dx = pass.activation(dy.extent(0), dy.extent(1));  // (N,F)
        for_each_row(dy, [&](std::size_t n) {
            auto const x = saved.x.row(n), from = dy.row(n), to = dx.row(n);
            for (std::size_t f = 0; f < x.size(); ++f) to[f] = T(wide(from[f]) * 2 * std::max(wide(x[f]), wide(T{})));
        });
        return dx;
    }

    /// What can be looked at by name while a trainer lives (train/inspect.hpp).
    template <class T, class F>
    void inspect(Saved<T> const& saved, F&& visit) const {
        visit(name + ".input", saved.x);
    }

private:
    /// Arithmetic is done in the accumulator of the compute type, float for bfloat16 and float16, and rounded once.
    template <class T>
    static auto wide(T value) {
        return static_cast<ls::precision::accumulator<T>>(value);
    }

    /// Rows may lie further apart than they are long (View::stride), so a tensor is not one flat array: go row by row, or call
    /// x(n, f). parallel_for shares rows out to threads; the second number is what a row costs, so that small tensors stay serial. Its
    /// blocks must write to different places, and no sum may be split by it: results must not depend on the number of threads.
    template <class T, class Body>
    static void for_each_row(View<T, 2> x, Body const& body) {  // (N,F)
        ls::runtime::parallel_for(x.extent(0), x.extent(1), body);
    }
};
static_assert(ls::nn::module<SquaredRelu>,
              "SquaredRelu must declare, save, run forward and backward and show what it saved; see lockstep/nn/module.hpp");

/// GPT-2 with it: the same embedding, attention and head, another feed-forward part. Legend: C channels, F features.
struct SquaredReluGpt2 {
    using Gpt2 = ls::nn::Gpt2Architecture;

    static constexpr ls::state::Architecture kind = ls::state::Architecture::gpt2;

    using Norm  = Gpt2::Norm;
    using Mlp   = ls::nn::Sequential<ls::nn::LayerNorm, ls::nn::Linear, SquaredRelu, ls::nn::Linear, ls::nn::Dropout>;
    using Block = ls::nn::Sequential<ls::nn::Residual<Gpt2::Attention>, ls::nn::Residual<Mlp>>;

    static auto embedding(ls::state::ModelSizes const& s, ls::nn::ModelOptions const& o) { return Gpt2::embedding(s, o); }
    static auto head(ls::state::ModelSizes const& s) { return Gpt2::head(s); }

    static Block block(ls::state::ModelSizes const& s, ls::nn::ModelOptions const& o) {
        using namespace ls::nn;
        Heads const     heads{s.heads, s.kv_heads, s.dim / s.heads};
        Gpt2::Attention attention{LayerNorm{"ln_1", s.dim, s.norm_eps}, Linear{"attn.c_attn", s.dim, heads.projected()},
                                  CausalAttention{"attn", heads, o.dropout}, Linear{"attn.c_proj", s.dim, s.dim}, Dropout{o.dropout}};
        Mlp             mlp{LayerNorm{"ln_2", s.dim, s.norm_eps}, Linear{"mlp.c_fc", s.dim, s.ffn}, SquaredRelu{"mlp.relu2"},
                Linear{"mlp.c_proj", s.ffn, s.dim}, Dropout{o.dropout}};
        return Block{{attention}, {mlp}};
    }
};

int main() {
    auto const check = ls::nn::check_gradients(SquaredRelu{"relu2"});
    std::printf("gradient against finite differences: largest deviation %.1e %s\n", check.worst, check.fault.c_str());

    using Model   = ls::nn::Transformer<ls::tensor::ArenaStorage, SquaredReluGpt2>;
    using Trainer = ls::Trainer<Model, ls::precision::Bf16, ls::optim::AdamW, ls::parallel::Single>;
    Trainer trainer{{.layers = 2, .heads = 2, .kv_heads = 2, .dim = 32, .ffn = 128, .sequence = 32}, ls::optim::AdamW{}};

    auto const text =
        ls::data::Tokens::bytes("Peter Piper picked a peck of pickled peppers. A peck of pickled peppers Peter Piper picked, they say.");
    ls::data::TokenStream stream{text, {.sequence = 32, .global_batch = 4, .last_step = 100}};

    double first = 0, last = 0;
    for (ls::data::Batch const& batch : stream) {
        auto const step = trainer.step(batch, 3e-3);
        last            = step.loss;
        if (step.version == 1) first = step.loss;
        if (step.version == 1 || step.version % 10 == 0) std::printf("step %3d   loss %.4f\n", static_cast<int>(step.version), step.loss);
    }
    std::printf("With the squared ReLU the loss went from %.2f to %.2f.\n", first, last);
    return check.worst < 1e-5 && check.fault.empty() && last < 0.5 * first ? 0 : 1;
}
