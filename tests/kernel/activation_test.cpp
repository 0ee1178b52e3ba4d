#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "lockstep/kernel/activation.hpp"
#include "tables.hpp"

namespace activation_test {

using namespace lockstep;
using test::bfloat16;
using test::float16;
using test::Table;
using test::wide;

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); }
double silu(double x) { return x / (1 + std::exp(-x)); }

TEST_CASE("TRAPS 23: GELU of -1 is the tanh form") {
    test::with_each_isa([](kernel::Isa) {
        Table<float> x(1, 1), y(1, 1);
        x(0, 0) = -1.0f;
        kernel::gelu_forward(x.view(), y.view());
        CHECK(y(0, 0) == doctest::Approx(-0.158808009).epsilon(1e-6));
    });
}

TEST_CASE_TEMPLATE("GELU and SwiGLU agree with double at every width", T, float, bfloat16, float16, double) {
    for (std::size_t columns : test::awkward_sizes) {
        auto const    x = test::random_table<T>(2, columns, 1, 6.0);
        auto const    g = test::random_table<T>(2, 2 * columns, 2, 6.0);
        Table<double> right(2, columns), glu(2, columns);
        for (std::size_t r = 0; r < 2; ++r)
            for (std::size_t c = 0; c < columns; ++c) {
                right(r, c) = gelu(wide(x(r, c)));
                glu(r, c)   = silu(wide(g(r, c))) * wide(g(r, columns + c));
            }
        test::with_each_isa([&](kernel::Isa) {
            Table<T> y(2, columns);
            kernel::gelu_forward(x.view(), y.view());
            CHECK(test::worst_error(y, right) < test::tolerance<T>());
            kernel::swiglu_forward(g.view(), y.view());
            CHECK(test::worst_error(y, glu) < test::tolerance<T>());
            CHECK(y.padding_is_untouched());
        });
    }
}

TEST_CASE("the gradients of GELU and SwiGLU are those of finite differences") {
    auto          x = test::random_table<double>(2, 9, 1, 4.0), g = test::random_table<double>(2, 18, 2, 4.0);
    auto const    dy = test::random_table<double>(2, 9, 3);
    Table<double> y(2, 9), dx(2, 9), dg(2, 18);
    kernel::gelu_backward(x.view(), dy.view(), dx.view());
    kernel::swiglu_backward(g.view(), dy.view(), dg.view());
    CHECK(test::worst_derivative(x, dx, [&] {
              kernel::gelu_forward(x.view(), y.view());
              return test::product(y, dy);
          }) < 1e-9);
    CHECK(test::worst_derivative(g, dg, [&] {
              kernel::swiglu_forward(g.view(), y.view());
              return test::product(y, dy);
          }) < 1e-9);
}

TEST_CASE_TEMPLATE("the gradients agree with double at every width, also in place", T, float, bfloat16, float16) {
    for (std::size_t columns : test::awkward_sizes) {
        auto const    x = test::random_table<T>(2, 2 * columns, 1, 6.0), dy = test::random_table<T>(2, columns, 2);
        Table<double> wx(2, 2 * columns), wdy(2, columns), gelu_right(2, columns), glu_right(2, 2 * columns);
        for (std::size_t i = 0; i < x.elements.size(); ++i) wx.elements[i] = wide(x.elements[i]);
        for (std::size_t i = 0; i < dy.elements.size(); ++i) wdy.elements[i] = wide(dy.elements[i]);
        kernel::gelu_backward(wx.view().columns(0, columns), wdy.view(), gelu_right.view());
        kernel::swiglu_backward(wx.view(), wdy.view(), glu_right.view());
        test::with_each_isa([&](kernel::Isa) {
            Table<T> dx = dy, dg = x;
            kernel::gelu_backward(x.view().columns(0, columns), dx.view(), dx.view());
            CHECK(test::worst_error(dx, gelu_right) < test::tolerance<T>());
            kernel::swiglu_backward(dg.view(), dy.view(), dg.view());
            CHECK(test::worst_error(dg, glu_right) < test::tolerance<T>());
            CHECK((dx.padding_is_untouched() && dg.padding_is_untouched()));
        });
    }
}

TEST_CASE("far out GELU and SiLU are 0 or the identity; NaN and infinity stay") {
    test::with_each_isa([](kernel::Isa) {
        float const  infinity = std::numeric_limits<float>::infinity();
        Table<float> x(1, 40), y(1, 40), dx(1, 40), dy(1, 40);
        x(0, 3)  = 50.0f;
        x(0, 17) = -50.0f;
        x(0, 20) = infinity;
        x(0, 39) = std::nanf("");
        for (std::size_t c = 0; c < 40; ++c) dy(0, c) = 1.0f;
        kernel::gelu_forward(x.view(), y.view());
        kernel::gelu_backward(x.view(), dy.view(), dx.view());
        CHECK(y(0, 3) == 50.0f);
        CHECK(y(0, 17) == 0.0f);
        CHECK(y(0, 20) == infinity);
        CHECK(std::isnan(y(0, 39)));
        CHECK(y(0, 38) == 0.0f);
        CHECK(dx(0, 3) == 1.0f);
        CHECK(dx(0, 17) == 0.0f);
        CHECK(dx(0, 0) == 0.5f);
        CHECK(std::isnan(dx(0, 39)));
    });
}

TEST_CASE("an element's bits depend neither on its place nor on the number of threads") {
    CHECK(test::same_on_any_number_of_threads([] {
        auto const      x = test::random_table<bfloat16>(40, 5000, 1, 4.0);
        Table<bfloat16> y(40, 5000);
        kernel::gelu_forward(x.view(), y.view());
        return y;
    }));
    test::with_each_isa([](kernel::Isa) {
        Table<float> x(1, 47), y(1, 47);
        for (std::size_t c = 0; c < 47; ++c) x(0, c) = 0.7310586f;
        kernel::gelu_forward(x.view(), y.view());
        bool same = true;
        for (std::size_t c = 0; c < 47; ++c) same = same && y(0, c) == y(0, 0);
        CHECK(same);
    });
}

TEST_CASE("shapes of activations are checked by sentences, empty tensors are legal") {
    Table<float> x(2, 4), y(2, 3), none(0, 0);
    CHECK_THROWS_WITH_AS(kernel::gelu_forward(x.view(), y.view()), "gelu_forward: y must be 2 x 4, found 2 x 3", Error);
    CHECK_THROWS_WITH_AS(kernel::swiglu_forward(x.view(), y.view()), "swiglu_forward: x must be 2 x 6, found 2 x 4", Error);
    kernel::gelu_forward(none.view(), none.view());
    kernel::swiglu_forward(none.view(), none.view());
}

}  // namespace activation_test
