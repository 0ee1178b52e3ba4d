#pragma once
// Causal self-attention over projected queries, keys and values, and the rotary position embedding before it.

#include "lockstep/kernel/attention.hpp"
#include "lockstep/kernel/rotary.hpp"
#include "lockstep/nn/module.hpp"

namespace lockstep::nn {

/// Sizes that attention and its projections share. Legend: H heads, K heads of keys and values, D head size.
struct Heads {
    std::size_t query = 0;  // H
    std::size_t key   = 0;  // K
    std::size_t size  = 0;  // D

    std::size_t projected() const noexcept { return (query + 2 * key) * size; }  // (H+2K) D
};

/// Rotates queries and keys by their position (Su et al. 2021, arXiv:2104.09864, half rotation), in place.
struct Rotary {
    Heads  heads;
    double theta = 10000;

    static constexpr bool overwrites_input    = true;
    static constexpr bool overwrites_gradient = true;

    template <class T>
    struct Saved {};

    void declare(Declaration&) const {}

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> qkv, Saved<T>&) const {
        kernel::rotary({pass.batch, pass.sequence, heads.query, heads.key, heads.size}, qkv, theta, false);
        return qkv;
    }

    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dqkv, Saved<T>&) const {
        kernel::rotary({pass.batch, pass.sequence, heads.query, heads.key, heads.size}, dqkv, theta, true);
        return dqkv;
    }

    template <class T, class F>
    void inspect(Saved<T> const&, F&&) const {}
};
static_assert(module<Rotary>);

/// softmax(q k^T / sqrt(D)) v per head, causal (Vaswani et al. 2017, arXiv:1706.03762). Scores are never stored: backward
/// recomputes them from the log-sum-exp (Dao et al. 2022, arXiv:2205.14135).
struct CausalAttention {
    std::string name;
    Heads       heads;
    float       dropout = 0;  // probability, on attention weights

    std::uint32_t random_site = 0;  // set by declare

    static constexpr bool keeps_output = true;

    template <class T>
    struct Saved {
        View<T, 2>                         qkv;          // (N,(H+2K)D)
        View<T, 2>                         out;          // (N,HD)
        View<precision::accumulator<T>, 2> log_sum_exp;  // (B*H,T)
    };

    void declare(Declaration& declaration) { random_site = declaration.random_site(); }

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> qkv, Saved<T>& saved) const {
        saved = {qkv, pass.activation(qkv.extent(0), heads.query * heads.size),
                 pass.workspace->template take<precision::accumulator<T>, 2>({pass.batch * heads.query, pass.sequence})};
        kernel::attention_forward(shape(pass), qkv, saved.out, saved.log_sum_exp, drop(pass));
        return saved.out;
    }

    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dout, Saved<T>& saved) const {
        auto dqkv = pass.activation(dout.extent(0), heads.projected());  // (N,(H+2K)D)
        kernel::attention_backward(shape(pass), saved.qkv, saved.out, dout, saved.log_sum_exp, dqkv, drop(pass));
        return dqkv;
    }

    template <class T, class F>
    void inspect(Saved<T> const& saved, F&& visit) const {
        visit(name + ".qkv", saved.qkv);
        visit(name + ".output", saved.out);
        visit(name + ".log_sum_exp", saved.log_sum_exp);
    }

private:
    template <class P>
    kernel::AttentionShape shape(P const& pass) const noexcept {
        return {pass.batch, pass.sequence, heads.query, heads.key, heads.size};
    }
    template <class P>
    kernel::AttentionDropout drop(P const& pass) const noexcept {
        return {pass.training ? dropout : 0.0f, pass.random(random_site), pass.first_sample};
    }
};
static_assert(module<CausalAttention>);

}  // namespace lockstep::nn
