#pragma once
// Head: final norm, projection to the vocabulary and cross-entropy, in chunks of tokens so that the logits of a large batch never exist at
// once.

#include <algorithm>
#include <cstdint>

#include "lockstep/core/exact_sum.hpp"
#include "lockstep/kernel/cross_entropy.hpp"
#include "lockstep/kernel/elementwise.hpp"
#include "lockstep/kernel/gemm.hpp"
#include "lockstep/nn/module.hpp"

namespace lockstep::nn {

/// Legend: N tokens, R tokens of a chunk, C channels, V vocabulary, W columns of a row of logits (V padded to a cache line).
template <class Norm>
struct Head {
    Norm        norm;
    std::string name;  // of the projection; empty: tied to the embedding
    std::size_t vocab     = 0;
    std::size_t channels  = 0;
    float       deviation = 0.02f;

    ParameterIndex weight_index = 0;  // set by declare

    /// Logits kept at once; if they all fit, backward need not compute them again.
    static constexpr std::size_t chunk_bytes = std::size_t{64} << 20;

    template <class T>
    struct Saved {
        typename Norm::template Saved<T>   norm;
        View<T, 2>                         h;            // (N,C), normalised
        View<precision::accumulator<T>, 2> logits;       // (R,W), of the last chunk
        View<precision::accumulator<T>, 1> loss;         // (N), 0 where the label is ignored
        View<precision::accumulator<T>, 1> log_sum_exp;  // (N)
    };

    /// `tied` is the embedding's table, used where the projection has no weights of its own.
    void declare(Declaration& declaration, ParameterIndex tied) {
        norm.declare(declaration);
        weight_index = name.empty() ? declaration.share(tied) : declaration.matrix(name, vocab, channels, {0, deviation});
    }

    /// The sum of the losses of all valid tokens.
    template <class P, class T = typename P::element>
    ExactSum forward(P& pass, View<T, 2> x, std::span<std::int32_t const> labels, Saved<T>& saved) const {
        std::size_t const n = x.extent(0);
        saved.h             = norm.forward(pass, x, saved.norm);
        saved.loss          = pass.statistics(n);
        saved.log_sum_exp   = pass.statistics(n);
        saved.logits        = take_logits(pass, std::min(n, chunk<T>()));
        ExactSum sum;
        for (std::size_t begin = 0; begin < n; begin += chunk<T>()) {
            std::size_t const end    = std::min(n, begin + chunk<T>());
            auto const        losses = part(saved.loss, begin, end);
            kernel::cross_entropy_forward(project(pass, saved.h.rows(begin, end), saved.logits), vocab, labels.subspan(begin, end - begin),
                                          losses, part(saved.log_sum_exp, begin, end));
            for (auto loss : losses.flat()) sum += static_cast<double>(loss);
        }
        return sum;
    }

    /// dx for a loss that is `scale` times the sum of forward.
    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, std::span<std::int32_t const> labels, typename P::accumulator scale, Saved<T>& saved) const {
        std::size_t const n  = saved.h.extent(0);
        auto              dh = pass.activation(n, channels);  // (N,C)
        for (std::size_t begin = 0; begin < n; begin += chunk<T>()) {
            std::size_t const end     = std::min(n, begin + chunk<T>());
            auto const        h       = saved.h.rows(begin, end);                                         // (R,C)
            auto const        logits  = n <= chunk<T>() ? saved.logits : project(pass, h, saved.logits);  // (R,W)
            auto const        dlogits = logits;
            kernel::cross_entropy_backward(logits, vocab, labels.subspan(begin, end - begin), part(saved.log_sum_exp, begin, end), scale,
                                           dlogits);
            kernel::gemm_weight_grad(dlogits.columns(0, vocab), h, pass.matrix_gradient(weight_index), {});
            kernel::gemm_input_grad(dlogits.columns(0, vocab), pass.matrix_for_input_grad(weight_index), dh.rows(begin, end));
        }
        pass.contributed(weight_index);
        return norm.backward(pass, dh, saved.norm);
    }

    /// The logits (N,V) of rows of the residual stream, for sampling.
    template <class P, class T = typename P::element>
    View<typename P::accumulator, 2> logits(P& pass, View<T, 2> x) const {
        typename Norm::template Saved<T> ignored;
        auto const                       h = norm.forward(pass, x, ignored);
        return project(pass, h, take_logits(pass, h.extent(0))).columns(0, vocab);
    }

    template <class S, class F>
    void inspect(S const& saved, F&& visit) const {
        norm.inspect(saved.norm, visit);
        visit("head.input", saved.h);
        visit("head.logits", saved.logits);
        visit("head.loss", saved.loss);
        visit("head.log_sum_exp", saved.log_sum_exp);
    }

private:
    std::size_t padded_vocab() const noexcept { return (vocab + 15) / 16 * 16; }

    template <class T>
    std::size_t chunk() const noexcept {
        return std::max<std::size_t>(64, chunk_bytes / sizeof(precision::accumulator<T>) / padded_vocab());
    }

    template <class A>
    static View<A, 1> part(View<A, 1> values, std::size_t begin, std::size_t end) {
        return {values.data() + begin, {end - begin}};
    }

    template <class P>
    auto take_logits(P& pass, std::size_t rows) const {
        auto const logits = pass.workspace->template take<typename P::accumulator, 2>({rows, padded_vocab()});
        kernel::fill_zero(logits.flat());  // padding columns are never written
        return logits;
    }

    template <class P, class V, class L>
    L project(P& pass, V h, L logits) const {
        L const rows = logits.rows(0, h.extent(0));  // (R,W)
        kernel::gemm_forward(h, pass.matrix(weight_index), View<typename P::element const, 1>{}, rows.columns(0, vocab));
        return rows;
    }
};

}  // namespace lockstep::nn
