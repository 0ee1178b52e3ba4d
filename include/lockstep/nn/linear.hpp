#pragma once
// Linear: y = x W^T + b.

#include "lockstep/kernel/gemm.hpp"
#include "lockstep/nn/module.hpp"

namespace lockstep::nn {

/// W is stored [out, in]. Legend: N tokens, I in, O out.
struct Linear {
    std::string name;
    std::size_t in        = 0;
    std::size_t out       = 0;
    bool        with_bias = true;
    float       deviation = 0.02f;  // of the initial weights

    ParameterIndex weight_index = 0;  // set by declare
    ParameterIndex bias_index   = 0;

    template <class T>
    struct Saved {
        View<T, 2> x;  // (N,I)
    };

    void declare(Declaration& declaration) {
        weight_index = declaration.matrix(name + ".weight", out, in, {0, deviation});
        if (with_bias) bias_index = declaration.vector(name + ".bias", out, {});
    }

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        check("inputs", x.extent(1), in);
        saved.x = x;
        auto y  = pass.activation(x.extent(0), out);  // (N,O)
        kernel::gemm_forward(x, pass.matrix(weight_index), bias(pass), y);
        return y;
    }

    /// The vector b, or an empty view.
    template <class P>
    auto bias(P const& pass) const {
        return with_bias ? pass.vector(bias_index) : View<typename P::element const, 1>{};
    }

    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        check("gradients", dy.extent(1), out);
        add_gradients(pass, dy, saved.x);
        auto dx = pass.activation(dy.extent(0), in);  // (N,I)
        kernel::gemm_input_grad(dy, pass.matrix_for_input_grad(weight_index), dx);
        return dx;
    }

    /// Adds the gradients of W and b.
    template <class P, class T = typename P::element>
    void add_gradients(P& pass, View<T, 2> dy, View<T, 2> x) const {
        using Bias = View<typename P::accumulator, 1>;
        kernel::gemm_weight_grad(dy, x, pass.matrix_gradient(weight_index), with_bias ? pass.vector_gradient(bias_index) : Bias{});
        pass.contributed(weight_index);
        if (with_bias) pass.contributed(bias_index);
    }

    template <class T, class F>
    void inspect(Saved<T> const& saved, F&& visit) const {
        visit(name + ".input", saved.x);
    }

private:
    void check(char const* what, std::size_t columns, std::size_t expected) const {
        require(columns == expected, "Linear ", name, ": expected ", what, " of ", expected, " columns, found ", columns);
    }
};
static_assert(module<Linear>);

}  // namespace lockstep::nn
