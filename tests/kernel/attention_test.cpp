#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "attention_reference.hpp"
#include "lockstep/kernel/attention.hpp"

namespace attention_test {

using namespace lockstep;
using namespace lockstep::kernel;
using kernel::test::AttentionResult;
using kernel::test::Numbers;
using precision::bfloat16;
using precision::float16;

RandomKey const        inputs{.seed = 11, .purpose = 1, .step = 0};
AttentionDropout const none{};
AttentionDropout const third{.probability = 0.3f, .key = {.seed = 5, .purpose = 9, .step = 3}, .first_sample = 21};

AttentionShape const awkward[] = {
    {1, 1, 1, 1, 1},    {2, 37, 4, 2, 20}, {1, 5, 3, 1, 15},  {3, 64, 2, 2, 32},  {1, 65, 2, 1, 16},
    {1, 131, 3, 3, 40}, {1, 200, 2, 2, 7}, {1, 257, 2, 1, 8}, {1, 600, 1, 1, 12},  // more than one span of queries
};

/// Values that are exact in T, so that the reference sees the same input.
template <class T>
Numbers random_numbers(std::size_t count, std::uint32_t purpose) {
    Numbers x(count);
    for (std::size_t i = 0; i < count; ++i) {
        double const value = random_normal({inputs.seed, purpose, 0}, i);
        if constexpr (std::same_as<T, double>)
            x[i] = value;
        else
            x[i] = static_cast<double>(static_cast<float>(T(static_cast<float>(value))));
    }
    return x;
}

/// A matrix whose rows lie `gap` elements further apart than they are long.
template <class T>
struct Matrix {
    Matrix(std::size_t rows, std::size_t columns, std::size_t gap = 0, double fill = 0)
        : stride(columns + gap), data(rows * stride, from(fill)), view(data.data(), {rows, columns}, {stride, 1}) {}
    Matrix(std::size_t rows, std::size_t columns, std::size_t gap, Numbers const& numbers) : Matrix(rows, columns, gap, -77.0) {
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < columns; ++j) view(i, j) = from(numbers[i * columns + j]);
    }
    static T from(double value) {
        if constexpr (std::same_as<T, double>)
            return value;
        else
            return T(static_cast<float>(value));
    }
    bool gaps_untouched(double fill) const {
        for (std::size_t i = 0; i < data.size(); ++i)
            if (i % stride >= view.extent(1) && static_cast<double>(data[i]) != fill) return false;
        return true;
    }

    std::size_t        stride;
    std::vector<T>     data;
    tensor::View<T, 2> view;
};

template <class T>
struct Run {
    using A = precision::accumulator<T>;
    Run(AttentionShape shape, Numbers const& x, Numbers const& dy, AttentionDropout const& dropout, std::size_t gap = 0)
        : qkv(shape.rows(), shape.qkv_columns(), gap, x),
          dout(shape.rows(), shape.out_columns(), 2 * gap, dy),
          out(shape.rows(), shape.out_columns(), gap, -77.0),
          dqkv(shape.rows(), shape.qkv_columns(), 3 * gap, -77.0),
          lse(shape.batch * shape.heads, shape.sequence, gap, -77.0) {
        tensor::View<T const, 2> const input = qkv.view;
        attention_forward(shape, input, out.view, lse.view, dropout);
        attention_backward(shape, input, out.view, dout.view, lse.view, dqkv.view, dropout);
    }
    Matrix<T> qkv, dout, out, dqkv;
    Matrix<A> lse;
};

/// Largest difference, in units of the largest reference value (at least 1). NaN counts as infinite.
template <class T>
double error(Matrix<T> const& found, Numbers const& right) {
    double worst = 0, size = 1;
    for (std::size_t i = 0; i < found.view.extent(0); ++i)
        for (std::size_t j = 0; j < found.view.extent(1); ++j) {
            double const wanted = right[i * found.view.extent(1) + j];
            double const off    = std::abs(static_cast<double>(found.view(i, j)) - wanted);
            worst               = off <= worst ? worst : std::isnan(off) ? INFINITY : off;
            size                = std::max(size, std::abs(wanted));
        }
    return worst / size;
}

template <class T>
bool same_bits(Matrix<T> const& a, Matrix<T> const& b) {
    auto const equal = [](T x, T y) { return std::memcmp(&x, &y, sizeof(T)) == 0; };
    return std::ranges::equal(a.data, b.data, equal);
}

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

template <class T>
void compare_with_reference(double tolerance, std::size_t gap = 0) {
    for (AttentionShape const& s : awkward) {
        auto const x  = random_numbers<T>(s.rows() * s.qkv_columns(), 1);
        auto const dy = random_numbers<T>(s.rows() * s.out_columns(), 2);
        for (AttentionDropout const& dropout : {none, third}) {
            auto const right = kernel::test::reference_attention(s, x, dy, dropout);
            with_each_isa([&] {
                CAPTURE(s.sequence);
                CAPTURE(s.head_size);
                CAPTURE(dropout.probability);
                Run<T> const run(s, x, dy, dropout, gap);
                CHECK(error(run.out, right.out) < tolerance);
                CHECK(error(run.lse, right.lse) < std::min(tolerance, 1e-5));
                CHECK(error(run.dqkv, right.dqkv) < tolerance);
                CHECK(run.out.gaps_untouched(-77));
                CHECK(run.lse.gaps_untouched(-77));
                CHECK(run.dqkv.gaps_untouched(-77));
            });
        }
    }
}

TEST_CASE("attention agrees with dense matrices in double, forward and backward, with and without dropout") {
    compare_with_reference<float>(2e-6);
    compare_with_reference<double>(1e-13);
}

TEST_CASE("attention reads and writes rows that lie apart, and nothing between them") { compare_with_reference<float>(2e-6, 5); }

TEST_CASE("attention in 16-bit types is as exact as their rounding") {
    compare_with_reference<bfloat16>(8e-3);
    compare_with_reference<float16>(1e-3);
}

TEST_CASE("the gradient of attention agrees with finite differences in double") {
    AttentionShape const s{2, 7, 4, 2, 6};
    Numbers              x  = random_numbers<double>(s.rows() * s.qkv_columns(), 1);
    Numbers const        dy = random_numbers<double>(s.rows() * s.out_columns(), 2);
    for (AttentionDropout const& dropout : {none, third}) {
        auto const loss = [&] {
            Run<double> const run(s, x, dy, dropout);
            double            sum = 0;
            for (std::size_t i = 0; i < dy.size(); ++i) sum += dy[i] * run.out.data[i];
            return sum;
        };
        Run<double> const run(s, x, dy, dropout);
        for (std::size_t i = 0; i < x.size(); i += 5) {
            double const at = x[i], step = 1e-5;
            x[i]              = at + step;
            double const up   = loss();
            x[i]              = at - step;
            double const down = loss();
            x[i]              = at;
            CHECK(run.dqkv.data[i] == doctest::Approx((up - down) / (2 * step)).epsilon(1e-6));
        }
    }
}

TEST_CASE("attention gives the same bits on any number of threads") {
    AttentionShape const s{2, 150, 4, 2, 24};
    auto const           x  = random_numbers<bfloat16>(s.rows() * s.qkv_columns(), 1);
    auto const           dy = random_numbers<bfloat16>(s.rows() * s.out_columns(), 2);
    with_each_isa([&] {
        Run<float> const alone = runtime::Threads(1).run([&] { return Run<float>(s, x, dy, third); });
        for (int count : {2, 3}) {
            Run<float> const together = runtime::Threads(count).run([&] { return Run<float>(s, x, dy, third); });
            CHECK(same_bits(alone.out, together.out));
            CHECK(same_bits(alone.lse, together.lse));
            CHECK(same_bits(alone.dqkv, together.dqkv));
        }
    });
}

TEST_CASE("a sequence gets the same bits wherever it stands in a batch") {
    AttentionShape const s{3, 70, 4, 2, 20}, one{1, 70, 4, 2, 20};
    auto const           x  = random_numbers<float>(s.rows() * s.qkv_columns(), 1);
    auto const           dy = random_numbers<float>(s.rows() * s.out_columns(), 2);
    with_each_isa([&] {
        Run<float> const all(s, x, dy, third);
        for (std::size_t b = 0; b < s.batch; ++b) {
            auto const part = [&](auto const& numbers) {
                auto const n = static_cast<std::ptrdiff_t>(numbers.size() / s.batch), at = static_cast<std::ptrdiff_t>(b) * n;
                return std::vector(numbers.begin() + at, numbers.begin() + at + n);
            };
            AttentionDropout dropout = third;
            dropout.first_sample += b;
            Run<float> const single(one, part(x), part(dy), dropout);
            CHECK(single.out.data == part(all.out.data));
            CHECK(single.lse.data == part(all.lse.data));
            CHECK(single.dqkv.data == part(all.dqkv.data));
        }
    });
}

TEST_CASE("a token changes nothing before it") {
    AttentionShape const s{1, 100, 2, 2, 16};
    auto const           x  = random_numbers<float>(s.rows() * s.qkv_columns(), 1);
    auto const           dy = random_numbers<float>(s.rows() * s.out_columns(), 2);
    with_each_isa([&] {
        Run<float> const before(s, x, dy, third);
        for (std::size_t changed : {1u, 40u, 64u, 99u}) {
            Numbers other = x;
            for (std::size_t i = changed * s.qkv_columns(); i < (changed + 1) * s.qkv_columns(); ++i) other[i] = 3 - other[i];
            Run<float> const after(s, other, dy, third);
            auto const       part = static_cast<std::ptrdiff_t>(changed * s.out_columns());
            CHECK(std::equal(before.out.data.begin(), before.out.data.begin() + part, after.out.data.begin()));
            CHECK(before.out.data != after.out.data);
        }
    });
}

TEST_CASE("logits of 1e4 and more leave the softmax finite") {
    AttentionShape const s{1, 90, 2, 1, 16};
    auto                 x  = random_numbers<float>(s.rows() * s.qkv_columns(), 1);
    auto const           dy = random_numbers<float>(s.rows() * s.out_columns(), 2);
    for (std::size_t t = 0; t < s.rows(); ++t)
        for (std::size_t j = 0; j < (s.heads + s.kv_heads) * s.head_size; ++j)
            x[t * s.qkv_columns() + j] = std::round(x[t * s.qkv_columns() + j] * 8) * 16;
    auto const right = kernel::test::reference_attention(s, x, dy, none);
    CHECK(*std::ranges::max_element(right.lse) > 1e4);
    with_each_isa([&] {
        Run<float> const run(s, x, dy, none);
        CHECK(error(run.out, right.out) < 1e-4);
        CHECK(error(run.lse, right.lse) < 1e-6);
        CHECK(error(run.dqkv, right.dqkv) < 1e-3);  // exp(score - lse) near 1e4 in float
    });
}

TEST_CASE("dropout drops the weights that its key names and scales the others") {
    // Equal scores and one-hot values: out(t, k) = factor(t, k) / (t + 1).
    AttentionShape const s{2, 50, 2, 2, 50};
    Numbers              x(s.rows() * s.qkv_columns());
    for (std::size_t n = 0; n < s.rows(); ++n)
        for (std::size_t h = 0; h < s.kv_heads; ++h) x[n * s.qkv_columns() + s.value_column(h) + n % s.sequence] = 1;
    Numbers const dy(s.rows() * s.out_columns());
    with_each_isa([&] {
        Run<float> const run(s, x, dy, third);
        std::size_t      kept = 0, all = 0, wrong = 0;
        for (std::size_t b = 0; b < s.batch; ++b)
            for (std::size_t h = 0; h < s.heads; ++h)
                for (std::size_t t = 0; t < s.sequence; ++t)
                    for (std::size_t k = 0; k < s.sequence; ++k) {
                        double const found =
                            static_cast<double>(run.out.view(b * s.sequence + t, h * s.head_size + k)) * static_cast<double>(t + 1);
                        double const right = k > t ? 0 : kernel::test::reference_factor(s, third, b, h, t, k);
                        wrong += std::abs(found - right) > 1e-5;
                        kept += found > 0.5;
                        all += k <= t;
                    }
        CHECK(wrong == 0);
        double const mean = 0.7 * static_cast<double>(all);
        CHECK(std::abs(static_cast<double>(kept) - mean) < 4 * std::sqrt(0.3 * mean));
    });
}

TEST_CASE("attention refuses shapes that do not fit") {
    Matrix<float> qkv(6, 16), out(6, 8), lse(4, 3);
    CHECK_NOTHROW(attention_forward({2, 3, 2, 1, 4}, qkv.view, out.view, lse.view));
    CHECK_THROWS_WITH_AS(attention_forward({2, 3, 3, 2, 4}, qkv.view, out.view, lse.view),
                         "attention: query heads must be a multiple of key/value heads, found 3 and 2", Error);
    CHECK_THROWS_WITH_AS(attention_forward({2, 3, 2, 2, 4}, qkv.view, out.view, lse.view), "attention: qkv must be 6 x 24, found 6 x 16",
                         Error);
    CHECK_THROWS_AS(attention_forward({2, 3, 2, 1, 4}, qkv.view, out.view, lse.view, {.probability = 1.0f}), Error);
}

}  // namespace attention_test
