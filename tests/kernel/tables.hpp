#pragma once
// Tensors, references and comparisons for the tests of the kernels.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/precision/mixed.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/tensor/view.hpp"

namespace test {

using lockstep::precision::bfloat16;
using lockstep::precision::float16;

/// Sizes around the widths of batches.
inline constexpr std::size_t awkward_sizes[]{1, 15, 16, 17, 31, 33, 47, 65, 100, 1000};

/// A matrix whose rows are `padding` elements further apart than they are long; the padding holds 77.
template <class T>
struct Table {
    std::size_t    rows, columns, stride;
    std::vector<T> elements;

    Table(std::size_t r, std::size_t c, std::size_t padding = 3) : rows(r), columns(c), stride(c + padding), elements(r * stride) {
        for (std::size_t i = 0; i < elements.size(); ++i)
            if (i % stride >= c) elements[i] = T(77.0f);
    }

    T&       operator()(std::size_t r, std::size_t c) { return elements[r * stride + c]; }
    T const& operator()(std::size_t r, std::size_t c) const { return elements[r * stride + c]; }

    lockstep::tensor::View<T, 2>       view() { return {elements.data(), {rows, columns}, {stride, 1}}; }
    lockstep::tensor::View<T const, 2> view() const { return {elements.data(), {rows, columns}, {stride, 1}}; }
    /// The first row.
    lockstep::tensor::View<T, 1> line() { return {elements.data(), {columns}}; }

    bool padding_is_untouched() const {
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = columns; c < stride; ++c)
                if (static_cast<float>((*this)(r, c)) != 77.0f) return false;
        return true;
    }
};

/// Uniform in offset -scale .. offset +scale, rounded to T.
template <class T>
Table<T> random_table(std::size_t rows, std::size_t columns, std::uint64_t seed, double scale = 1.0, double offset = 0.0) {
    Table<T> table(rows, columns);
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c) {
            double const u = lockstep::unit_interval(lockstep::random_bits({.seed = seed}, r * columns + c));
            table(r, c)    = T(static_cast<lockstep::precision::accumulator<T>>(offset + scale * (2 * u - 1)));
        }
    return table;
}

template <class T>
double wide(T value) {
    return static_cast<lockstep::precision::accumulator<T>>(value);
}

/// One rounding to T, and what sums of the accumulator may lose.
template <class T>
double tolerance() {
    if constexpr (sizeof(T) == 8) return 1e-12;
    if constexpr (sizeof(T) == 4) return 4e-6;
    return std::is_same_v<T, bfloat16> ? 0x1p-8 : 0x1p-11;
}

/// Largest error, relative to 1 + |right value|; infinite where one is NaN and the other is not.
template <class T, class U>
double worst_error(Table<T> const& found, Table<U> const& right) {
    double worst = 0;
    for (std::size_t r = 0; r < right.rows; ++r)
        for (std::size_t c = 0; c < right.columns; ++c) {
            double const f = wide(found(r, c)), w = wide(right(r, c));
            double const error = std::abs(f - w) / (1 + std::abs(w));
            if (f == w || (std::isnan(f) && std::isnan(w))) continue;
            worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
        }
    return worst;
}

template <class T>
bool same_bits(Table<T> const& a, Table<T> const& b) {
    return a.elements.size() == b.elements.size() && std::memcmp(a.elements.data(), b.elements.data(), a.elements.size() * sizeof(T)) == 0;
}

/// Calls f once with each kernel family in use.
template <class F>
void with_each_isa(F const& f) {
    lockstep::kernel::Isa const before = lockstep::kernel::isa();
    for (auto isa : {lockstep::kernel::Isa::scalar, lockstep::kernel::Isa::simd}) {
        if (!lockstep::kernel::available(isa)) continue;
        lockstep::kernel::use(isa);
        f(isa);
    }
    lockstep::kernel::use(before);
}

/// True if make() gives the same bits on 1, 2 and 3 threads, with each kernel family.
template <class Make>
bool same_on_any_number_of_threads(Make const& make) {
    bool same = true;
    with_each_isa([&](lockstep::kernel::Isa) {
        auto const one = lockstep::runtime::Threads(1).run(make);
        for (int threads : {2, 3}) same = same && same_bits(lockstep::runtime::Threads(threads).run(make), one);
    });
    return same;
}

/// Largest difference of the derivatives of `loss()` by the elements of x, taken by central differences, from `gradient`.
template <class Loss>
double worst_derivative(Table<double>& x, Table<double> const& gradient, Loss const& loss) {
    double worst = 0;
    for (std::size_t r = 0; r < x.rows; ++r)
        for (std::size_t c = 0; c < x.columns; ++c) {
            double const     value = x(r, c);
            constexpr double step  = 1e-5;
            x(r, c)                = value + step;
            double const above     = loss();
            x(r, c)                = value - step;
            double const below     = loss();
            x(r, c)                = value;
            worst                  = std::max(worst, std::abs((above - below) / (2 * step) - gradient(r, c)));
        }
    return worst;
}

/// Sum of a * b.
inline double product(Table<double> const& a, Table<double> const& b) {
    double sum = 0;
    for (std::size_t r = 0; r < a.rows; ++r)
        for (std::size_t c = 0; c < a.columns; ++c) sum += a(r, c) * b(r, c);
    return sum;
}

}  // namespace test
