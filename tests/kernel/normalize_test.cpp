#include <doctest/doctest.h>

#include <cmath>

#include "lockstep/kernel/normalize.hpp"
#include "tables.hpp"

namespace normalize_test {

using namespace lockstep;
using test::bfloat16;
using test::float16;
using test::Table;
using test::wide;

constexpr float eps = 1e-5f;

template <class T>
struct Layer {
    using A = precision::accumulator<T>;
    Table<T> x, gamma, beta, dy, y, dx;
    Table<A> mean, rstd, dgamma, dbeta;

    Layer(std::size_t rows, std::size_t columns)
        : x(test::random_table<T>(rows, columns, 1, 2.0, 0.5)),
          gamma(test::random_table<T>(1, columns, 2, 1.0, 1.0)),
          beta(test::random_table<T>(1, columns, 3)),
          dy(test::random_table<T>(rows, columns, 4)),
          y(rows, columns),
          dx(rows, columns),
          mean(1, rows),
          rstd(1, rows),
          dgamma(1, columns),
          dbeta(1, columns) {}

    void layernorm() { kernel::layernorm_forward(x.view(), gamma.line(), beta.line(), eps, y.view(), mean.line(), rstd.line()); }
    void layernorm_backward() {
        kernel::layernorm_backward(dy.view(), x.view(), gamma.line(), mean.line(), rstd.line(), dx.view(), dgamma.line(), dbeta.line());
    }
    void rmsnorm() { kernel::rmsnorm_forward(x.view(), gamma.line(), eps, y.view(), rstd.line()); }
    void rmsnorm_backward() { kernel::rmsnorm_backward(dy.view(), x.view(), gamma.line(), rstd.line(), dx.view(), dgamma.line()); }
};

/// The same computation in double, from the rounded inputs.
template <class T>
Layer<double> widened(Layer<T> const& layer) {
    Layer<double> result(layer.x.rows, layer.x.columns);
    auto const    widen = [](auto const& from, Table<double>& to) {
        for (std::size_t i = 0; i < from.elements.size(); ++i) to.elements[i] = wide(from.elements[i]);
    };
    widen(layer.x, result.x);
    widen(layer.gamma, result.gamma);
    widen(layer.beta, result.beta);
    widen(layer.dy, result.dy);
    return result;
}

TEST_CASE("TRAPS 23: LayerNorm of 1, 2, 3, 4") {
    test::with_each_isa([](kernel::Isa) {
        Layer<float> layer(1, 4);
        for (std::size_t c = 0; c < 4; ++c) {
            layer.x(0, c)     = static_cast<float>(c + 1);
            layer.gamma(0, c) = 1;
            layer.beta(0, c)  = 0;
        }
        layer.layernorm();
        CHECK(layer.y(0, 0) == doctest::Approx(-1.341635420).epsilon(1e-6));
        CHECK(layer.y(0, 1) == doctest::Approx(-0.447211807).epsilon(1e-6));
        CHECK(layer.y(0, 2) == doctest::Approx(0.447211807).epsilon(1e-6));
        CHECK(layer.y(0, 3) == doctest::Approx(1.341635420).epsilon(1e-6));
        CHECK(layer.mean(0, 0) == 2.5f);
    });
}

TEST_CASE("in double, LayerNorm and RMSNorm follow their formulas") {
    Layer<double> layer(3, 17);
    layer.layernorm();
    Table<double> right(3, 17);
    for (std::size_t r = 0; r < 3; ++r) {
        double sum = 0, square = 0;
        for (std::size_t c = 0; c < 17; ++c) sum += layer.x(r, c);
        for (std::size_t c = 0; c < 17; ++c) square += std::pow(layer.x(r, c) - sum / 17, 2);
        double const deviation = std::sqrt(square / 17 + double{eps});
        for (std::size_t c = 0; c < 17; ++c) right(r, c) = (layer.x(r, c) - sum / 17) / deviation * layer.gamma(0, c) + layer.beta(0, c);
    }
    CHECK(test::worst_error(layer.y, right) < 1e-14);

    layer.rmsnorm();
    for (std::size_t r = 0; r < 3; ++r) {
        double square = 0;
        for (std::size_t c = 0; c < 17; ++c) square += std::pow(layer.x(r, c), 2);
        for (std::size_t c = 0; c < 17; ++c) right(r, c) = layer.x(r, c) / std::sqrt(square / 17 + double{eps}) * layer.gamma(0, c);
    }
    CHECK(test::worst_error(layer.y, right) < 1e-14);
}

TEST_CASE("the gradients of LayerNorm and RMSNorm are those of finite differences") {
    Layer<double> layer(3, 7);
    layer.layernorm();
    layer.layernorm_backward();
    auto const loss = [&] {
        layer.layernorm();
        return test::product(layer.y, layer.dy);
    };
    CHECK(test::worst_derivative(layer.x, layer.dx, loss) < 1e-8);
    CHECK(test::worst_derivative(layer.gamma, layer.dgamma, loss) < 1e-8);
    CHECK(test::worst_derivative(layer.beta, layer.dbeta, loss) < 1e-8);

    Layer<double> rms(3, 7);
    rms.rmsnorm();
    rms.rmsnorm_backward();
    auto const rms_loss = [&] {
        rms.rmsnorm();
        return test::product(rms.y, rms.dy);
    };
    CHECK(test::worst_derivative(rms.x, rms.dx, rms_loss) < 1e-8);
    CHECK(test::worst_derivative(rms.gamma, rms.dgamma, rms_loss) < 1e-8);
}

TEST_CASE_TEMPLATE("each type and family agrees with double at every width", T, float, bfloat16, float16, double) {
    double const close = test::tolerance<T>();
    for (std::size_t columns : test::awkward_sizes) {
        for (std::size_t rows : {std::size_t{1}, std::size_t{33}}) {
            test::with_each_isa([&](kernel::Isa) {
                Layer<T>      layer(rows, columns);
                Layer<double> right = widened(layer);
                layer.layernorm();
                right.layernorm();
                CHECK(test::worst_error(layer.y, right.y) < close);
                CHECK(test::worst_error(layer.mean, right.mean) < 1e-6);
                CHECK(test::worst_error(layer.rstd, right.rstd) < 1e-6);
                layer.layernorm_backward();
                right.layernorm_backward();
                CHECK(test::worst_error(layer.dx, right.dx) < 4 * close);
                CHECK(test::worst_error(layer.dgamma, right.dgamma) < 1e-5);
                CHECK(test::worst_error(layer.dbeta, right.dbeta) < 1e-5);
                CHECK((layer.y.padding_is_untouched() && layer.dx.padding_is_untouched() && layer.dgamma.padding_is_untouched()));

                Layer<T>      rms(rows, columns);
                Layer<double> rms_right = widened(rms);
                rms.rmsnorm();
                rms_right.rmsnorm();
                CHECK(test::worst_error(rms.y, rms_right.y) < 2 * close);  // rounded twice
                rms.rmsnorm_backward();
                rms_right.rmsnorm_backward();
                CHECK(test::worst_error(rms.dx, rms_right.dx) < 4 * close);
                CHECK(test::worst_error(rms.dgamma, rms_right.dgamma) < 6 * close);  // a sum of rounded terms
            });
        }
    }
}

TEST_CASE("RMSNorm rounds to the compute type before the weight is applied") {
    test::with_each_isa([](kernel::Isa) {
        Layer<bfloat16> layer(2, 33);
        layer.rmsnorm();
        bool same = true;
        for (std::size_t r = 0; r < 2; ++r)
            for (std::size_t c = 0; c < 33; ++c) {
                bfloat16 const normalised(static_cast<float>(layer.x(r, c)) * layer.rstd(0, r));
                same = same && layer.y(r, c).bits == bfloat16(static_cast<float>(normalised) * static_cast<float>(layer.gamma(0, c))).bits;
            }
        CHECK(same);
    });
}

TEST_CASE("the variance is taken around the mean: a large offset does no harm") {
    test::with_each_isa([](kernel::Isa) {
        Layer<float> layer(1, 64);
        for (std::size_t c = 0; c < 64; ++c) layer.x(0, c) = 4096.0f + (c % 2 == 0 ? 1.0f : -1.0f);
        layer.layernorm();
        CHECK(layer.mean(0, 0) == 4096.0f);
        CHECK(layer.rstd(0, 0) == doctest::Approx(1.0).epsilon(1e-5));
    });
}

TEST_CASE("a row's bits do not depend on its place, nor on the other rows") {
    test::with_each_isa([](kernel::Isa) {
        Layer<float> all(9, 47), one(1, 47);
        for (std::size_t c = 0; c < 47; ++c) {
            one.x(0, c)  = all.x(7, c);
            one.dy(0, c) = all.dy(7, c);
            all.x(6, c)  = std::nanf("");
        }
        for (Layer<float>* layer : {&all, &one}) {
            layer->layernorm();
            layer->layernorm_backward();
        }
        bool same = true;
        for (std::size_t c = 0; c < 47; ++c) same = same && all.y(7, c) == one.y(0, c) && all.dx(7, c) == one.dx(0, c);
        CHECK(same);
        CHECK(std::isnan(all.y(6, 0)));
        CHECK(std::isnan(all.dx(6, 46)));
        CHECK(std::isnan(all.dgamma(0, 0)));
    });
}

TEST_CASE("the gradients of the weights are added to what is there, and are the same on any number of threads") {
    CHECK(test::same_on_any_number_of_threads([] {
        Layer<bfloat16> layer(257, 300);
        layer.layernorm();
        layer.layernorm_backward();
        return layer.dgamma;
    }));
    CHECK(test::same_on_any_number_of_threads([] {
        Layer<bfloat16> layer(257, 300);
        layer.rmsnorm();
        layer.rmsnorm_backward();
        return layer.dgamma;
    }));
    Layer<double> once(5, 20), twice(5, 20);
    once.layernorm();
    twice.layernorm();
    once.layernorm_backward();
    twice.layernorm_backward();
    twice.layernorm_backward();
    CHECK(twice.dgamma(0, 3) == 2 * once.dgamma(0, 3));
    CHECK(twice.dbeta(0, 19) == 2 * once.dbeta(0, 19));
    CHECK(test::same_bits(once.dx, twice.dx));
}

TEST_CASE("dx may be the memory of dy") {
    test::with_each_isa([](kernel::Isa) {
        Layer<bfloat16> apart(5, 47), shared(5, 47);
        apart.layernorm();
        shared.layernorm();
        apart.layernorm_backward();
        kernel::layernorm_backward(shared.dy.view(), shared.x.view(), shared.gamma.line(), shared.mean.line(), shared.rstd.line(),
                                   shared.dy.view(), shared.dgamma.line(), shared.dbeta.line());
        CHECK(test::same_bits(apart.dx, shared.dy));
    });
}

TEST_CASE("shapes are checked by sentences, empty tensors are legal") {
    Layer<float> layer(2, 4);
    Table<float> other(2, 5);
    CHECK_THROWS_WITH_AS(kernel::layernorm_forward(layer.x.view(), layer.gamma.line(), layer.beta.line(), eps, other.view(),
                                                   layer.mean.line(), layer.rstd.line()),
                         "layernorm_forward: y must be 2 x 4, found 2 x 5", Error);
    CHECK_THROWS_WITH_AS(kernel::rmsnorm_forward(layer.x.view(), other.line(), eps, layer.y.view(), layer.rstd.line()),
                         "rmsnorm_forward: gamma must have 4 elements, found 5", Error);
    Layer<float> none(0, 4);
    none.layernorm();
    none.layernorm_backward();
    CHECK(none.dgamma(0, 0) == 0.0f);
}

}  // namespace normalize_test
