#pragma once
// LayerNorm (Ba et al. 2016, arXiv:1607.06450) and RMSNorm (Zhang, Sennrich 2019, arXiv:1910.07467) over the last dimension.

#include "lockstep/kernel/normalize.hpp"
#include "lockstep/nn/module.hpp"

namespace lockstep::nn {

/// y = (x - mean) / sqrt(variance + eps) * gamma + beta. Legend: N tokens, C channels.
struct LayerNorm {
    std::string name;
    std::size_t channels = 0;
    double      eps      = 1e-5;

    ParameterIndex gamma_index = 0;  // set by declare
    ParameterIndex beta_index  = 0;

    template <class T>
    struct Saved {
        View<T, 2>                         x;     // (N,C)
        View<precision::accumulator<T>, 1> mean;  // (N)
        View<precision::accumulator<T>, 1> rstd;  // (N), 1 / sqrt(variance + eps)
    };

    void declare(Declaration& declaration) {
        gamma_index = declaration.vector(name + ".weight", channels, {1, 0});
        beta_index  = declaration.vector(name + ".bias", channels, {});
    }

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        saved  = {x, pass.statistics(x.extent(0)), pass.statistics(x.extent(0))};
        auto y = pass.activation(x.extent(0), channels);  // (N,C)
        kernel::layernorm_forward(x, pass.vector(gamma_index), pass.vector(beta_index), eps, y, saved.mean, saved.rstd);
        return y;
    }

    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        auto dx = pass.activation(dy.extent(0), channels);  // (N,C)
        kernel::layernorm_backward(dy, saved.x, pass.vector(gamma_index), saved.mean, saved.rstd, dx, pass.vector_gradient(gamma_index),
                                   pass.vector_gradient(beta_index));
        pass.contributed(gamma_index);
        pass.contributed(beta_index);
        return dx;
    }

    template <class T, class F>
    void inspect(Saved<T> const& saved, F&& visit) const {
        visit(name + ".input", saved.x);
        visit(name + ".mean", saved.mean);
        visit(name + ".rstd", saved.rstd);
    }
};
static_assert(module<LayerNorm>);

/// y = x / sqrt(mean of squares + eps) * gamma. Legend: N tokens, C channels.
struct RmsNorm {
    std::string name;
    std::size_t channels = 0;
    double      eps      = 1e-5;

    ParameterIndex gamma_index = 0;  // set by declare

    template <class T>
    struct Saved {
        View<T, 2>                         x;     // (N,C)
        View<precision::accumulator<T>, 1> rstd;  // (N), 1 / sqrt(mean of squares + eps)
    };

    void declare(Declaration& declaration) { gamma_index = declaration.vector(name + ".weight", channels, {1, 0}); }

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        saved  = {x, pass.statistics(x.extent(0))};
        auto y = pass.activation(x.extent(0), channels);  // (N,C)
        kernel::rmsnorm_forward(x, pass.vector(gamma_index), eps, y, saved.rstd);
        return y;
    }

    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        auto dx = pass.activation(dy.extent(0), channels);  // (N,C)
        kernel::rmsnorm_backward(dy, saved.x, pass.vector(gamma_index), saved.rstd, dx, pass.vector_gradient(gamma_index));
        pass.contributed(gamma_index);
        return dx;
    }

    template <class T, class F>
    void inspect(Saved<T> const& saved, F&& visit) const {
        visit(name + ".input", saved.x);
        visit(name + ".rstd", saved.rstd);
    }
};
static_assert(module<RmsNorm>);

}  // namespace lockstep::nn
