#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "lockstep/kernel/cross_entropy.hpp"
#include "tables.hpp"

namespace cross_entropy_test {

using namespace lockstep;
using test::bfloat16;
using test::float16;
using test::Table;
using test::wide;

using Labels = std::vector<std::int32_t>;

/// Losses of rows of logits, and what is needed for the gradient.
template <class T>
struct Loss {
    Table<precision::accumulator<T>> loss, lse;

    Loss(Table<T> const& logits, std::size_t vocab, Labels const& labels) : loss(1, logits.rows), lse(1, logits.rows) {
        kernel::cross_entropy_forward(logits.view(), vocab, labels, loss.line(), lse.line());
    }
};

template <class T>
Table<T> gradient(Table<T> const& logits, std::size_t vocab, Labels const& labels, double scale) {
    Loss<T>  forward(logits, vocab, labels);
    Table<T> d(logits.rows, logits.columns);
    kernel::cross_entropy_backward(logits.view(), vocab, labels, forward.lse.line(), static_cast<precision::accumulator<T>>(scale),
                                   d.view());
    return d;
}

/// In double, straight from the definition.
template <class T>
double right_loss(Table<T> const& logits, std::size_t row, std::size_t vocab, std::size_t label) {
    double sum = 0;
    for (std::size_t v = 0; v < vocab; ++v) sum += std::exp(wide(logits(row, v)) - wide(logits(row, label)));
    return std::log(sum);
}

TEST_CASE("TRAPS 20: cross entropy of logits 1000, 0, and of a uniform distribution over 50257") {
    test::with_each_isa([](kernel::Isa) {
        Table<float> logits(2, 2);
        logits(0, 0) = logits(1, 0) = 1000.0f;
        Loss<float> const two(logits, 2, {0, 1});
        CHECK(two.loss(0, 0) == 0.0f);
        CHECK(two.loss(0, 1) == 1000.0f);
        Table<float> const uniform(1, 50257);
        CHECK(Loss<float>(uniform, 50257, {17}).loss(0, 0) == doctest::Approx(10.8249051197).epsilon(1e-7));
        auto const d = gradient(logits, 2, {0, 1}, 1.0);
        CHECK(d(0, 0) == 0.0f);
        CHECK(d(1, 0) == 1.0f);
        CHECK(d(1, 1) == -1.0f);
    });
}

TEST_CASE("TRAPS 21: a vocabulary of 3 padded to 4") {
    test::with_each_isa([](kernel::Isa) {
        Table<float> logits(1, 4);
        logits(0, 3) = 100.0f;
        CHECK(Loss<float>(logits, 3, {1}).loss(0, 0) == doctest::Approx(std::log(3.0)).epsilon(1e-7));
        auto const d = gradient(logits, 3, {1}, 3.0);
        CHECK(d(0, 0) == doctest::Approx(1.0));
        CHECK(d(0, 1) == doctest::Approx(-2.0));
        CHECK(d(0, 3) == 0.0f);
    });
}

TEST_CASE("the gradient of the logits is that of finite differences, 0 in ignored rows and padding") {
    auto         logits = test::random_table<double>(4, 9, 1, 3.0);
    Labels const labels{0, ignored_label, 6, 3};
    double const scale = 0.25;
    auto const   d     = gradient(logits, 7, labels, scale);
    auto const   loss  = [&] {
        Loss<double> const forward(logits, 7, labels);
        return scale * (forward.loss(0, 0) + forward.loss(0, 1) + forward.loss(0, 2) + forward.loss(0, 3));
    };
    CHECK(test::worst_derivative(logits, d, loss) < 1e-9);
    for (std::size_t v = 0; v < 9; ++v) CHECK(d(1, v) == 0.0);
    CHECK(d(0, 7) == 0.0);
    CHECK(d(0, 8) == 0.0);
}

TEST_CASE_TEMPLATE("each type and family agrees with double at every size of the vocabulary", T, float, bfloat16, float16, double) {
    for (std::size_t vocab : test::awkward_sizes) {
        auto const logits = test::random_table<T>(3, vocab + 5, vocab, 8.0);
        Labels     labels{static_cast<std::int32_t>(vocab / 2), 0, static_cast<std::int32_t>(vocab - 1)};
        test::with_each_isa([&](kernel::Isa) {
            Loss<T> const forward(logits, vocab, labels);
            auto const    d = gradient(logits, vocab, labels, 0.5);
            Table<double> right(3, vocab + 5);
            for (std::size_t n = 0; n < 3; ++n) {
                auto const label = static_cast<std::size_t>(labels[n]);
                CHECK(std::abs(wide(forward.loss(0, n)) - right_loss(logits, n, vocab, label)) < 1e-5);
                for (std::size_t v = 0; v < vocab; ++v)
                    right(n, v) = 0.5 * (std::exp(-right_loss(logits, n, vocab, v)) - (v == label ? 1.0 : 0.0));
            }
            CHECK(test::worst_error(d, right) < test::tolerance<T>());
            CHECK(d.padding_is_untouched());
        });
    }
}

TEST_CASE("the gradient may overwrite the logits; threads and places of rows do not matter") {
    auto const logits = test::random_table<bfloat16>(33, 1003, 5, 4.0);
    Labels     labels(33, 7);
    test::with_each_isa([&](kernel::Isa) {
        auto           in_place = logits;
        Loss<bfloat16> forward(logits, 1000, labels);
        kernel::cross_entropy_backward(in_place.view(), 1000, labels, forward.lse.line(), 0.1f, in_place.view());
        auto const apart = gradient(logits, 1000, labels, 0.1f);
        CHECK(test::same_bits(in_place, apart));
        Table<bfloat16> last(1, 1003);
        for (std::size_t v = 0; v < 1003; ++v) last(0, v) = logits(32, v);
        auto const alone = gradient(last, 1000, {7}, 0.1f);
        bool       same  = Loss<bfloat16>(last, 1000, {7}).loss(0, 0) == forward.loss(0, 32);
        for (std::size_t v = 0; v < 1003; ++v) same = same && alone(0, v).bits == apart(32, v).bits;
        CHECK(same);
    });
    CHECK(test::same_on_any_number_of_threads([&] { return gradient(logits, 1000, labels, 0.1); }));
}

TEST_CASE("NaN and infinity in a used row reach the loss; in an ignored row or in padding they do not") {
    test::with_each_isa([](kernel::Isa) {
        for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
            auto logits   = test::random_table<float>(3, 40, 1);
            logits(0, 35) = logits(1, 2) = logits(2, 39) = bad;
            Labels const labels{0, ignored_label, 3};
            Loss<float>  forward(logits, 39, labels);
            CHECK(std::isnan(forward.loss(0, 0)));
            CHECK(forward.loss(0, 1) == 0.0f);
            CHECK(std::isfinite(forward.loss(0, 2)));
            auto const d = gradient(logits, 39, labels, 1.0);
            CHECK(std::isnan(d(0, 35)));
            CHECK(d(1, 2) == 0.0f);
            CHECK(d(2, 39) == 0.0f);
        }
        Table<float> masked(1, 20);
        masked(0, 4) = -std::numeric_limits<float>::infinity();
        CHECK(Loss<float>(masked, 20, {0}).loss(0, 0) == doctest::Approx(std::log(19.0)));
    });
}

TEST_CASE("a label outside the vocabulary is an error that names its position") {
    Table<float> const logits(3, 8);
    CHECK_THROWS_WITH_AS(Loss<float>(logits, 6, {0, 6, 1}), "cross_entropy_forward: label 6 at position 1 is outside the vocabulary of 6",
                         Error);
    CHECK_THROWS_WITH_AS(Loss<float>(logits, 6, {0, 1, -2}), "cross_entropy_forward: label -2 at position 2 is outside the vocabulary of 6",
                         Error);
    CHECK_THROWS_WITH_AS(Loss<float>(logits, 9, {0, 1, 2}),
                         "cross_entropy_forward: the vocabulary must be at most the 8 columns of the logits, found 9", Error);
    CHECK_THROWS_WITH_AS(Loss<float>(logits, 6, {0, 1}), "cross_entropy_forward: labels must be 3, found 2", Error);
    CHECK(Loss<float>(Table<float>(0, 8), 6, {}).loss.columns == 0);
}

}  // namespace cross_entropy_test
