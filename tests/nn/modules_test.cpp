// The library's modules, combinators and blocks against finite differences.

#include <doctest/doctest.h>

#include "lockstep/nn/gpt2.hpp"
#include "lockstep/nn/gradient_check.hpp"
#include "lockstep/nn/llama.hpp"

namespace modules_test {

using namespace lockstep::nn;
namespace state = lockstep::state;

/// y = tanh(x), and saves y: a body that keeps its output.
struct Tanh {
    static constexpr bool keeps_output = true;

    template <class T>
    struct Saved {
        View<T, 2> y;  // (N,C)
    };
    void declare(Declaration&) const {}
    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        saved.y = pass.activation(x.extent(0), x.extent(1));  // (N,C)
        for (std::size_t i = 0; i < x.size(); ++i) saved.y.data()[i] = std::tanh(x.data()[i]);
        return saved.y;
    }
    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        auto dx = pass.activation(dy.extent(0), dy.extent(1));  // (N,C)
        for (std::size_t i = 0; i < dy.size(); ++i) dx.data()[i] = dy.data()[i] * (1 - saved.y.data()[i] * saved.y.data()[i]);
        return dx;
    }
    template <class T, class F>
    void inspect(Saved<T> const& saved, F&& visit) const {
        visit(std::string("tanh.output"), saved.y);
    }
};

template <class M>
void check(M const& module, GradientCheckOptions const& options) {
    auto const result = check_gradients(module, options);
    CAPTURE(result.where);
    CHECK(result.worst < 1e-7);
    CHECK(result.fault == "");
}

state::ModelSizes const gpt2_sizes{
    .arch = state::Architecture::gpt2, .layers = 2, .heads = 3, .kv_heads = 3, .dim = 12, .ffn = 20, .vocab = 11, .sequence = 7};
state::ModelSizes const llama_sizes{.arch     = state::Architecture::llama,
                                    .layers   = 2,
                                    .heads    = 3,
                                    .kv_heads = 1,
                                    .dim      = 12,
                                    .ffn      = 10,
                                    .vocab    = 11,
                                    .sequence = 7,
                                    .tied     = false};

TEST_CASE("Linear has the gradients of x W^T + b") {
    check(Linear{"l", 8, 5}, {});
    check(Linear{"l", 8, 5, false}, {});
    check(Linear{"l", 1, 17}, {.batch = 1, .sequence = 1, .columns = 1});
}

TEST_CASE("the norms have the gradients of their formulas") {
    check(LayerNorm{"n", 7}, {.columns = 7});
    check(RmsNorm{"n", 7}, {.columns = 7});
    check(LayerNorm{"n", 19, 0.3}, {.columns = 19});  // an epsilon that matters
    check(RmsNorm{"n", 19, 0.3}, {.columns = 19});
}

TEST_CASE("the activations have the gradients of their formulas") {
    check(Gelu{"g"}, {.columns = 9, .spread = 2});
    check(GeluFeedForward{Linear{"a", 6, 10}, "g", Linear{"b", 10, 4}}, {.columns = 6});
    check(SwiGlu{"s"}, {.columns = 10, .spread = 2});
}

TEST_CASE("Rotary turns the gradients back") { check(Rotary{{3, 1, 4}, 100}, {.sequence = 6, .columns = 20}); }

TEST_CASE("CausalAttention has the gradients of softmax(q k^T) v: one head, several, groups of queries, with dropout") {
    check(CausalAttention{"a", {1, 1, 3}}, {.columns = 9});
    check(CausalAttention{"a", {3, 3, 4}}, {.columns = 36});
    check(CausalAttention{"a", {4, 2, 3}}, {.sequence = 7, .columns = 24});
    check(CausalAttention{"a", {4, 1, 2}, 0.3f}, {.sequence = 6, .columns = 12});
    check(CausalAttention{"a", {3, 3, 4}, 0.3f}, {.columns = 36, .training = false});
    check(CausalAttention{"a", {2, 1, 5}}, {.batch = 3, .sequence = 1, .columns = 20});
}

TEST_CASE("Dropout has the gradient of its mask, and none where it does not train") {
    check(Dropout{0.4f}, {});
    check(Dropout{0.4f}, {.training = false});
    check(Dropout{0}, {});
}

TEST_CASE("Sequential follows the chain rule") {
    check(Sequential{LayerNorm{"n", 6}, Linear{"a", 6, 10}, Gelu{"g"}, Linear{"b", 10, 4}, Dropout{0.3f}}, {.columns = 6});
    check(Sequential{Linear{"q", 5, 20}, Rotary{{3, 1, 4}, 50}, CausalAttention{"a", {3, 1, 4}, 0.2f}, Linear{"o", 12, 3}}, {.columns = 5});
    check(Sequential{Linear{"a", 6, 4}}, {.columns = 6});
    check(Sequential{Linear{"a", 6, 4}, Tanh{}}, {.columns = 6});
}

TEST_CASE("Residual adds both ways, also around a body that keeps its output") {
    check(Residual<Linear>{Linear{"l", 6, 6}}, {.columns = 6});
    check(Residual<Tanh>{}, {});
    check(Residual<Sequential<Linear, Tanh>>{Sequential{Linear{"l", 6, 6}, Tanh{}}}, {.columns = 6});
    check(Residual<Residual<Tanh>>{}, {});
    static_assert(!keeps_output<Residual<Tanh>> && keeps_output<Sequential<Linear, Tanh>>);
}

TEST_CASE("Recompute has the gradients of its body, whether it keeps what the body saves or not") {
    Sequential const body{Linear{"a", 6, 9}, Tanh{}, Linear{"b", 9, 5}, Dropout{0.3f}};
    for (bool const enabled : {false, true}) {
        check(Recompute<std::remove_const_t<decltype(body)>>{body, enabled}, {.columns = 6});
        check(Sequential{Recompute<Tanh>{{}, enabled}, Recompute<Residual<Linear>>{{Linear{"l", 6, 6}}, enabled}}, {.columns = 6});
        check(Recompute<Recompute<Linear>>{{Linear{"l", 6, 4}, enabled}, true}, {.columns = 6});
    }
}

TEST_CASE("the blocks of gpt2 and llama have the gradients of their forward pass") {
    GradientCheckOptions const options{.sequence = 7, .columns = 12, .spread = 0.3};
    for (float const dropout : {0.0f, 0.2f}) {
        check(Gpt2Architecture::block(gpt2_sizes, {.dropout = dropout}), options);
        check(LlamaArchitecture::block(llama_sizes, {.dropout = dropout}), options);
    }
    check(Recompute<Gpt2Architecture::Block>{Gpt2Architecture::block(gpt2_sizes, {.dropout = 0.2f})}, options);
    check(Recompute<LlamaArchitecture::Block>{LlamaArchitecture::block(llama_sizes, {.dropout = 0.2f})}, options);
}

TEST_CASE("modules show what they saved, by name") {
    state::Unit unit{.name = "unit", .parameters = {}};
    Declaration declaration(unit);
    auto        block = Gpt2Architecture::block(gpt2_sizes, {});
    block.declare(declaration);
    Saved<Gpt2Architecture::Block, double> saved;
    std::string                            names;
    block.inspect(saved, [&](std::string const& name, auto const&) { names += name + " "; });
    CHECK(names ==
          "ln_1.input ln_1.mean ln_1.rstd attn.c_attn.input attn.qkv attn.output attn.log_sum_exp attn.c_proj.input "
          "ln_2.input ln_2.mean ln_2.rstd mlp.c_fc.input mlp.gelu.input mlp.c_proj.input ");
    CHECK(declaration.random_site() == 3);  // attention weights and both branches had one each
}

}  // namespace modules_test
