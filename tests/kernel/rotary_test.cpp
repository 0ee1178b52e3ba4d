#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/kernel/rotary.hpp"

namespace rotary_test {

using namespace lockstep;
using namespace lockstep::kernel;
using precision::bfloat16;
using precision::float16;

template <class T>
struct Matrix {
    Matrix(AttentionShape s, std::size_t gap = 0)
        : data(s.rows() * (s.qkv_columns() + gap)), view(data.data(), {s.rows(), s.qkv_columns()}, {s.qkv_columns() + gap, 1}) {
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<T>(static_cast<float>(random_normal({7, 1, 0}, i)));
    }
    std::vector<T>     data;
    tensor::View<T, 2> view;
};

template <class Body>
void with_each_isa(Body const& body) {
    Isa const before = isa();
    for (Isa family : {Isa::scalar, Isa::simd}) {
        if (!available(family)) continue;
        use(family);
        CAPTURE(name(family));
        body();
    }
    use(before);
}

/// Largest difference from turning every pair by t * theta^(-2j/D), and from leaving all else as it was.
template <class T>
double error(AttentionShape s, double theta, std::size_t gap) {
    Matrix<T> const before(s, gap);
    Matrix<T>       after(s, gap);
    rotary(s, after.view, theta);
    double            worst = 0;
    std::size_t const half = s.head_size / 2, rotated = (s.heads + s.kv_heads) * s.head_size, stride = s.qkv_columns() + gap;
    for (std::size_t i = 0; i < after.data.size(); ++i) {
        std::size_t const column = i % stride, j = column % s.head_size;
        double            right = static_cast<double>(before.data[i]);
        if (column < rotated) {
            double const angle = static_cast<double>(i / stride % s.sequence) *
                                 std::pow(theta, -2.0 * static_cast<double>(j % half) / static_cast<double>(s.head_size));
            double const other = static_cast<double>(before.data[j < half ? i + half : i - half]);
            right              = right * std::cos(angle) + (j < half ? -other : other) * std::sin(angle);
        }
        double const off = std::abs(static_cast<double>(after.data[i]) - right);
        worst            = off <= worst ? worst : std::isnan(off) ? INFINITY : off;
    }
    return worst;
}

double dot(std::span<double const> x, std::span<double const> y) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
    return sum;
}

TEST_CASE("rotary turns every pair of a query or key head by its position, and nothing else") {
    with_each_isa([] {
        for (AttentionShape const& s : {AttentionShape{2, 37, 4, 2, 20}, {1, 300, 1, 1, 64}, {1, 17, 3, 1, 2}, {3, 40, 2, 2, 30}}) {
            CAPTURE(s.head_size);
            for (std::size_t gap : {0u, 3u}) {
                CHECK(error<double>(s, 10000, gap) < 1e-11);
                CHECK(error<float>(s, 10000, gap) < 1e-6);
                CHECK(error<float>(s, 500000, gap) < 1e-6);
                CHECK(error<bfloat16>(s, 10000, gap) < 1.0 / 64);
                CHECK(error<float16>(s, 10000, gap) < 1.0 / 512);
            }
        }
    });
}

TEST_CASE("TRAPS 29: position 257 turns by 257 radians though bfloat16 cannot count to it") {
    AttentionShape const s{1, 258, 1, 1, 4};
    with_each_isa([&] {
        std::vector<bfloat16>     data(s.rows() * s.qkv_columns(), bfloat16(0.0f));
        tensor::View<bfloat16, 2> view(data.data(), {s.rows(), s.qkv_columns()});
        view(257, 0) = bfloat16(1.0f);
        view(256, 0) = bfloat16(1.0f);
        rotary(s, view, 10000);
        CHECK(view(257, 0).bits == bfloat16(0.819306f).bits);
        CHECK(view(256, 0).bits == bfloat16(-0.0397904f).bits);
    });
}

TEST_CASE("the inverse undoes rotary and is its transpose") {
    AttentionShape const s{2, 45, 4, 2, 18};
    with_each_isa([&] {
        Matrix<double> const x(s);
        Matrix<double>       turned(s), back(s);
        rotary(s, turned.view, 10000);
        rotary(s, back.view, 10000, true);
        // <R x, x> = <x, R^-1 x> where R is orthogonal.
        CHECK(dot(turned.data, x.data) == doctest::Approx(dot(x.data, back.data)).epsilon(1e-13));
        CHECK(std::abs(turned.data[s.qkv_columns()] - back.data[s.qkv_columns()]) > 1e-3);
        rotary(s, turned.view, 10000, true);
        double worst = 0;
        for (std::size_t i = 0; i < x.data.size(); ++i) worst = std::max(worst, std::abs(turned.data[i] - x.data[i]));
        CHECK(worst < 1e-14);
    });
}

TEST_CASE("rotary keeps the norm of every head") {
    AttentionShape const s{1, 500, 2, 1, 16};
    Matrix<double> const before(s);
    Matrix<double>       after(s);
    rotary(s, after.view, 10000);
    for (std::size_t t = 0; t < s.sequence; t += 7)
        for (std::size_t h = 0; h < s.heads + s.kv_heads; ++h) {
            auto const head = [&](Matrix<double> const& m) { return std::span<double const>(&m.view(t, h * s.head_size), s.head_size); };
            CHECK(dot(head(after), head(after)) == doctest::Approx(dot(head(before), head(before))).epsilon(1e-13));
        }
}

TEST_CASE("the score of a rotated query and key depends on their distance only") {
    AttentionShape const s{1, 130, 1, 1, 24};
    Matrix<double>       m(s);
    for (std::size_t t = 1; t < s.sequence; ++t)
        for (std::size_t j = 0; j < s.qkv_columns(); ++j) m.view(t, j) = m.view(0, j);
    rotary(s, m.view, 10000);
    auto const score = [&](std::size_t q, std::size_t k) {
        return dot({&m.view(q, 0), s.head_size}, {&m.view(k, s.head_size), s.head_size});
    };
    for (std::size_t distance : {0u, 1u, 13u, 60u})
        for (std::size_t k : {1u, 15u, 16u, 65u}) CHECK(score(k + distance, k) == doctest::Approx(score(distance, 0)).epsilon(1e-12));
    CHECK(std::abs(score(1, 0) - score(0, 0)) > 1e-3);
}

TEST_CASE("rotary gives the same bits on any number of threads and refuses odd heads") {
    AttentionShape const s{3, 200, 4, 2, 20};
    with_each_isa([&] {
        Matrix<float> alone(s), together(s);
        runtime::Threads(1).run([&] { rotary(s, alone.view, 10000); });
        runtime::Threads(3).run([&] { rotary(s, together.view, 10000); });
        CHECK(alone.data == together.data);
    });
    Matrix<float> odd({1, 2, 1, 1, 5});
    CHECK_THROWS_WITH_AS(rotary({1, 2, 1, 1, 5}, odd.view, 10000), "rotary: the head size must be even, found 5", Error);
}

}  // namespace rotary_test
