#pragma once
// Head: final norm, projection to the vocabulary and cross-entropy. Loss alone beside loss with its gradient.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/core/exact_sum.hpp"
#include "lockstep/kernel/gemm.hpp"
#include "lockstep/kernel/head_loss.hpp"
#include "lockstep/nn/module.hpp"

namespace lockstep::nn {

/// Legend: N tokens, C channels, V vocabulary.
template <class Norm>
struct Head {
    Norm        norm;
    std::string name;  // of the projection; empty: tied to the embedding
    std::size_t vocab     = 0;
    std::size_t channels  = 0;
    float       deviation = 0.02f;

    ParameterIndex weight_index = 0;  // set by declare

    template <class T>
    struct Saved {
        typename Norm::template Saved<T>   norm;
        View<T, 2>                         h;            // (N,C), normalised
        View<precision::accumulator<T>, 1> loss;         // (N), 0 where the label is ignored
        View<precision::accumulator<T>, 1> log_sum_exp;  // (N), the same
    };

    /// `tied` is the embedding's table, used where the projection has no weights of its own.
    void declare(Declaration& declaration, ParameterIndex tied) {
        norm.declare(declaration);
        weight_index = name.empty() ? declaration.share(tied) : declaration.matrix(name, vocab, channels, {0, deviation});
    }

    /// The sum of the losses of all valid tokens, without a gradient.
    template <class P, class T = typename P::element>
    ExactSum loss(P& pass, View<T, 2> x, std::span<std::int32_t const> labels, Saved<T>& saved) const {  // (N,C)
        begin(pass, x, saved);
        auto const w      = pass.matrix(weight_index);
        auto const logits = kernel::logit_storage(w);
        kernel::head_loss(saved.h, w, labels, saved.loss, saved.log_sum_exp,
                          logits.tiles ? std::span<std::byte>() : take_chunk(pass, x.extent(0), logits));
        return sum_of(saved);
    }

    /// Adds the same sum to `loss`; dx for `scale` times it.
    template <class P, class T = typename P::element>
    View<T, 2> loss_backward(P& pass, View<T, 2> x, std::span<std::int32_t const> labels, typename P::accumulator scale, Saved<T>& saved,
                             ExactSum& loss) const {  // (N,C)
        begin(pass, x, saved);
        auto       dh = pass.activation(x.extent(0), channels);  // (N,C)
        auto const w  = pass.matrix(weight_index);
        kernel::head_loss_backward(saved.h, w, pass.matrix_for_input_grad(weight_index), labels, scale, saved.loss, saved.log_sum_exp,
                                   pass.matrix_gradient(weight_index), dh, take_chunk(pass, x.extent(0), kernel::logit_storage(w)));
        pass.contributed(weight_index);
        loss += sum_of(saved);
        return norm.backward(pass, dh, saved.norm);
    }

    /// The logits (N,V) of rows of the residual stream, for sampling.
    template <class P, class T = typename P::element>
    View<typename P::accumulator, 2> logits(P& pass, View<T, 2> x) const {  // (N,C)
        typename Norm::template Saved<T> ignored;
        auto const                       h      = norm.forward(pass, x, ignored);                                                   // (N,C)
        auto const                       logits = pass.workspace->template take<typename P::accumulator, 2>({h.extent(0), vocab});  // (N,V)
        kernel::gemm_forward(h, pass.matrix(weight_index), View<T const, 1>{}, logits);
        return logits;
    }

    template <class S, class F>
    void inspect(S const& saved, F&& visit) const {
        norm.inspect(saved.norm, visit);
        visit("head.input", saved.h);
        visit("head.loss", saved.loss);
        visit("head.log_sum_exp", saved.log_sum_exp);
    }

private:
    template <class P, class T>
    void begin(P& pass, View<T, 2> x, Saved<T>& saved) const {
        saved.h           = norm.forward(pass, x, saved.norm);
        saved.loss        = pass.statistics(x.extent(0));
        saved.log_sum_exp = pass.statistics(x.extent(0));
    }

    /// Memory for what stands for the logits of a chunk.
    template <class P>
    std::span<std::byte> take_chunk(P& pass, std::size_t tokens, kernel::LogitStorage storage) const {
        return pass.workspace->template take<std::byte, 1>({kernel::head_chunk(tokens, vocab, storage).bytes}).flat();
    }

    template <class T>
    static ExactSum sum_of(Saved<T> const& saved) {
        ExactSum sum;
        for (auto loss : saved.loss.flat()) sum += static_cast<double>(loss);
        return sum;
    }
};

}  // namespace lockstep::nn
