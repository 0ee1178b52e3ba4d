// Combinators: backward of a composition follows from its parts. A user's own module, a wrong one, a shared parameter.

#include <doctest/doctest.h>

#include "lockstep/nn/activation.hpp"
#include "lockstep/nn/attention.hpp"
#include "lockstep/nn/dropout.hpp"
#include "lockstep/nn/gradient_check.hpp"
#include "lockstep/nn/linear.hpp"
#include "lockstep/nn/recompute.hpp"
#include "lockstep/nn/residual.hpp"
#include "lockstep/nn/sequential.hpp"

namespace composition_test {

using namespace lockstep::nn;

template <class M>
GradientCheck check(M const& module, std::size_t columns) {
    GradientCheck const result = check_gradients(module, {.columns = columns});
    CAPTURE(result.where);
    CHECK(result.worst < 1e-7);
    CHECK(result.fault == "");
    return result;
}

/// A module of a user's own: y = a x^2 with one parameter a channel. `slope` is wrong where it is not 2.
struct Squares {
    std::size_t channels = 0;
    double      slope    = 2;
    bool        reports  = true;

    ParameterIndex index = 0;

    template <class T>
    struct Saved {
        View<T, 2> x;
    };
    void declare(Declaration& declaration) { index = declaration.vector("squares.weight", channels, {1, 0}); }

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        saved.x = x;
        auto y  = pass.activation(x.extent(0), channels);
        for (std::size_t n = 0; n < x.extent(0); ++n)
            for (std::size_t c = 0; c < channels; ++c) y(n, c) = T(pass.vector(index)(c) * x(n, c) * x(n, c));
        return y;
    }
    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        auto dx = pass.activation(dy.extent(0), channels);
        for (std::size_t n = 0; n < dy.extent(0); ++n)
            for (std::size_t c = 0; c < channels; ++c) {
                dx(n, c) = static_cast<T>(slope * static_cast<double>(pass.vector(index)(c) * saved.x(n, c) * dy(n, c)));
                pass.vector_gradient(index)(c) += saved.x(n, c) * saved.x(n, c) * dy(n, c);
            }
        if (reports) pass.contributed(index);
        return dx;
    }
    template <class T, class F>
    void inspect(Saved<T> const& saved, F&& visit) const {
        visit("squares.input", saved.x);
    }
};
static_assert(module<Squares>);

/// Two linear layers with the same weights: y = (x W^T) W^T.
struct Twice {
    Linear first{"twice", 6, 6, false};
    Linear second{"twice", 6, 6, false};

    template <class T>
    struct Saved {
        Linear::Saved<T> first, second;
    };
    void declare(Declaration& declaration) {
        first.declare(declaration);
        second.weight_index = declaration.share(first.weight_index);
    }
    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        return second.forward(pass, first.forward(pass, x, saved.first), saved.second);
    }
    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        return first.backward(pass, second.backward(pass, dy, saved.second), saved.first);
    }
    template <class S, class F>
    void inspect(S const&, F&&) const {}
};

TEST_CASE("Sequential runs its modules in order and its backward is the list read from its end") {
    check(Sequential{Linear{"a", 8, 5}, Gelu{"g"}, Linear{"b", 5, 3}}, 8);
    check(Sequential{Linear{"a", 8, 5}, Dropout{0.3f}, Linear{"b", 5, 3}, Dropout{0.3f}}, 8);
    check(Sequential{Linear{"only", 8, 2}}, 8);
}

TEST_CASE("Residual adds the input to its body, also to one that keeps its output") {
    check(Residual<Linear>{Linear{"a", 8, 8}}, 8);
    using Attention = Sequential<Linear, CausalAttention>;
    static_assert(keeps_output<Attention>);
    check(Residual<Attention>{Attention{Linear{"qkv", 8, 24}, CausalAttention{"attn", {2, 2, 4}}}}, 8);
    using Nested = Residual<Sequential<Residual<Linear>, Linear>>;
    check(Nested{Sequential{Residual<Linear>{Linear{"a", 8, 8}}, Linear{"b", 8, 8}}}, 8);
}

TEST_CASE("Recompute gives the same derivatives whether it is enabled or not") {
    using Body = Sequential<Linear, CausalAttention, Linear, Dropout>;
    for (bool const enabled : {true, false})
        check(Recompute<Body>{Body{Linear{"qkv", 8, 24}, CausalAttention{"attn", {2, 2, 4}, 0.2f}, Linear{"out", 8, 8}, Dropout{0.2f}},
                              enabled},
              8);
    check(Sequential{Recompute<Linear>{Linear{"a", 8, 5}}, Recompute<Linear>{Linear{"b", 5, 8}}}, 8);
}

TEST_CASE("a module of a user's own composes and is checked like any other") {
    check(Squares{8}, 8);
    check(Sequential{Linear{"a", 8, 6}, Squares{6}, Linear{"b", 6, 2}}, 8);
    check(Residual<Squares>{Squares{8}}, 8);
}

TEST_CASE("a wrong backward is caught, where it is") {
    GradientCheck const wrong = check_gradients(Squares{8, 2.001});
    CHECK(wrong.worst > 1e-4);
    CHECK(wrong.where == "input");
    GradientCheck const deep = check_gradients(Sequential{Linear{"a", 8, 6}, Squares{6, 1.9}});
    CHECK(deep.worst > 1e-3);
    GradientCheck const silent = check_gradients(Squares{8, 2, false});
    CHECK(silent.worst < 1e-7);
    CHECK(silent.fault == "squares.weight is used 1 times, its gradient was reported 0 times");
}

TEST_CASE("the gradients of a parameter used twice add up, and it is reported twice") { check(Twice{}, 6); }

TEST_CASE("a name stands for one parameter of a unit") {
    lockstep::state::Unit unit{.name = "u", .parameters = {}};
    Declaration           declaration(unit);
    Sequential            modules{Linear{"same", 2, 2}, Linear{"same", 2, 2}};
    CHECK_THROWS_WITH_AS(modules.declare(declaration), "nn: the unit u declares the parameter same.weight twice", lockstep::Error);
}

TEST_CASE("tensors that were saved are shown by name") {
    Sequential const         module{Linear{"a", 4, 3}, Gelu{"g"}};
    std::vector<std::string> names;
    module.inspect(Saved<decltype(module), float>{}, [&](std::string const& name, auto const&) { names.push_back(name); });
    CHECK(names == std::vector<std::string>{"a.input", "g.input"});
}

}  // namespace composition_test
