#include "lockstep/nn/gradient_check.hpp"

#include <doctest/doctest.h>

#include <limits>

namespace gradient_check_test {

using namespace lockstep::nn;

/// What may be wrong with a module of a user's own.
enum class Wrong {
    nothing,
    input_gradient,
    parameter_gradient,
    assigned,
    not_a_number,
    not_reported,
    reported_twice,
    input_written,
    gradient_written,
    output_needed
};

/// y = x * gain, a factor for each channel. Legend: N tokens, C channels.
template <Wrong wrong>
struct Gain {
    std::size_t channels = 8;

    ParameterIndex gain_index = 0;

    template <class T>
    struct Saved {
        View<T, 2> x;  // (N,C)
        View<T, 2> y;  // (N,C)
    };

    void declare(Declaration& declaration) { gain_index = declaration.vector("gain", channels, {1, 0}); }

    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        auto const gain = pass.vector(gain_index);
        auto const y    = pass.activation(x.extent(0), channels);  // (N,C)
        for (std::size_t n = 0; n < x.extent(0); ++n)
            for (std::size_t c = 0; c < channels; ++c) y(n, c) = x(n, c) * gain(c);
        if (wrong == Wrong::input_written) x(0, 0) += 1;
        saved = {x, y};
        return y;
    }

    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        auto const gain  = pass.vector(gain_index);
        auto const dgain = pass.vector_gradient(gain_index);
        auto const dx    = pass.activation(dy.extent(0), channels);  // (N,C)
        for (std::size_t c = 0; c < channels; ++c) {
            T sum = 0;
            for (std::size_t n = 0; n < dy.extent(0); ++n) {
                dx(n, c) = dy(n, c) * (wrong == Wrong::input_gradient ? T(1) : gain(c));
                sum += dy(n, c) * (wrong == Wrong::output_needed ? saved.y(n, c) / gain(c) : saved.x(n, c));
            }
            if (wrong == Wrong::parameter_gradient) sum *= T(1.001);
            if (wrong == Wrong::not_a_number && c == 2) sum = std::numeric_limits<T>::quiet_NaN();
            dgain(c) = (wrong == Wrong::assigned ? T(0) : dgain(c)) + sum;
        }
        if (wrong == Wrong::gradient_written) dy(1, 1) = 0;
        if (wrong != Wrong::not_reported) pass.contributed(gain_index);
        if (wrong == Wrong::reported_twice) pass.contributed(gain_index);
        return dx;
    }

    template <class T, class F>
    void inspect(Saved<T> const& saved, F&& visit) const {
        visit("gain.input", saved.x);
    }
};
static_assert(module<Gain<Wrong::nothing>>);

/// y = (x * gain) * gain: one parameter, used twice.
struct Squared {
    Gain<Wrong::nothing> first, second;
    bool                 counted = true;

    template <class T>
    struct Saved {
        typename Gain<Wrong::nothing>::template Saved<T> first, second;
    };
    void declare(Declaration& declaration) {
        first.declare(declaration);
        second.gain_index = counted ? declaration.share(first.gain_index) : first.gain_index;
    }
    template <class P, class T = typename P::element>
    View<T, 2> forward(P& pass, View<T, 2> x, Saved<T>& saved) const {
        return second.forward(pass, first.forward(pass, x, saved.first), saved.second);
    }
    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>& saved) const {
        return first.backward(pass, second.backward(pass, dy, saved.second), saved.first);
    }
    template <class T, class F>
    void inspect(Saved<T> const&, F&&) const {}
};

template <Wrong wrong>
GradientCheck check() {
    return check_gradients(Gain<wrong>{});
}

TEST_CASE("a right module of one's own passes") {
    auto const right = check<Wrong::nothing>();
    CHECK(right.worst < 1e-8);
    CHECK(right.fault == "");
}

TEST_CASE("a wrong gradient is found, and where") {
    CHECK(check<Wrong::input_gradient>().worst > 0.1);
    CHECK(check<Wrong::input_gradient>().where == "input");
    CHECK(check<Wrong::parameter_gradient>().worst > 1e-4);
    CHECK(check<Wrong::parameter_gradient>().where == "gain");
    CHECK(check<Wrong::assigned>().worst > 0.1);  // backward must add
    CHECK(std::isnan(check<Wrong::not_a_number>().worst));
    CHECK(check<Wrong::not_a_number>().where == "gain");
    CHECK(std::isnan(check<Wrong::output_needed>().worst));  // another module may have written over an output that is not declared as kept
}

TEST_CASE("a gradient that is not reported as often as it is used is a fault") {
    CHECK(check<Wrong::not_reported>().fault == "gain is used 1 times, its gradient was reported 0 times");
    CHECK(check<Wrong::reported_twice>().fault == "gain is used 1 times, its gradient was reported 2 times");
}

TEST_CASE("a module that writes over a tensor without saying so is a fault") {
    CHECK(check<Wrong::input_written>().fault == "the input was written over");
    CHECK(check<Wrong::gradient_written>().fault == "the gradient of the output was written over");
}

TEST_CASE("the gradients of a parameter used twice add up") {
    auto const squared = check_gradients(Squared{.first = {}, .second = {}});
    CHECK(squared.worst < 1e-8);
    CHECK(squared.fault == "");
    CHECK(check_gradients(Squared{.first = {}, .second = {}, .counted = false}).fault ==
          "gain is used 1 times, its gradient was reported 2 times");
}

}  // namespace gradient_check_test
