#pragma once
// Embedding: a row of a table for each token, plus a row for its position where there are learned positions.

#include <cstdint>

#include "lockstep/kernel/embedding.hpp"
#include "lockstep/nn/dropout.hpp"

namespace lockstep::nn {

/// Legend: N tokens, T sequence, V vocabulary, C channels.
struct Embedding {
    std::string tokens_name;
    std::string positions_name;  // empty: no learned positions
    std::size_t vocab     = 0;
    std::size_t positions = 0;
    std::size_t channels  = 0;
    Dropout     dropout;
    float       deviation = 0.02f;

    ParameterIndex table_index     = 0;  // set by declare
    ParameterIndex positions_index = 0;

    template <class T>
    struct Saved {
        std::span<std::int32_t const> tokens;  // (N)
    };

    void declare(Declaration& declaration) {
        table_index = declaration.matrix(tokens_name, vocab, channels, {0, deviation});
        if (learned()) positions_index = declaration.matrix(positions_name, positions, channels, {0, deviation});
        dropout.declare(declaration);
    }

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, std::span<std::int32_t const> tokens, Saved<T>& saved) const {
        saved.tokens = tokens;
        auto x       = pass.activation(tokens.size(), channels);  // (N,C)
        kernel::embedding_forward(tokens, pass.matrix(table_index), learned() ? pass.matrix(positions_index) : state::Matrix<T const>{},
                                  pass.sequence, x);
        typename Dropout::template Saved<T> none;
        return dropout.forward(pass, x, none);
    }

    template <class P, class T = typename P::element>
    void backward(P& pass, View<T, 2> dx, Saved<T>& saved) const {
        using A = typename P::accumulator;
        typename Dropout::template Saved<T> none;
        dx = dropout.backward(pass, dx, none);
        kernel::embedding_backward(saved.tokens, dx, pass.matrix_gradient(table_index),
                                   learned() ? pass.matrix_gradient(positions_index) : state::Matrix<A>{}, pass.sequence);
        pass.contributed(table_index);
        if (learned()) pass.contributed(positions_index);
    }

private:
    bool learned() const noexcept { return !positions_name.empty(); }
};

}  // namespace lockstep::nn
