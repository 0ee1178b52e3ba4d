// Products on tiles against double, over awkward sizes. Where the machine has no tiles, only the packed copies are tested.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/kernel/arch/tiles_gemm.hpp"
#include "lockstep/kernel/arch/tiles_weight_grad.hpp"
#include "lockstep/kernel/gemm.hpp"
#include "lockstep/kernel/probes.hpp"
#include "lockstep/kernel/weight_copies.hpp"
#include "tile_unit.hpp"

namespace tiles_gemm_test {

using namespace lockstep;
using kernel::packed_layout;
using precision::bfloat16;

constexpr float untouched = 768.0f;  // exact in bfloat16

template <class T>
T number(std::uint32_t purpose, std::size_t i) {
    return T(static_cast<float>(2.0 * unit_interval(random_bits({9, purpose, 0}, i)) - 1.0));
}

/// Masters of a weight in tiles and both copies of it.
struct Weight {
    state::MatrixMap      map;
    std::vector<float>    masters;
    std::vector<bfloat16> forward, backward;

    Weight(std::size_t rows, std::size_t columns, std::uint32_t purpose)
        : map(rows, columns, packed_layout), masters(map.size(), 0.0f), forward(map.size()), backward(map.size()) {
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = 0; c < columns; ++c) masters[map(r, c)] = number<float>(purpose, r * columns + c);
        kernel::write_weight_copies(true, std::span<float const>(masters), std::span(forward), std::span(backward));
    }
    double operator()(std::size_t r, std::size_t c) const { return static_cast<double>(bfloat16(masters[map(r, c)])); }
    state::Matrix<bfloat16 const> forward_matrix() const { return {forward.data(), map.reordered(state::TileOrder::column_pairs)}; }
    state::Matrix<bfloat16 const> input_grad_matrix() const { return {backward.data(), map.reordered(state::TileOrder::row_pairs)}; }
#if LOCKSTEP_TILES
    kernel::arch::ForwardWeights   for_forward() const { return kernel::arch::ForwardWeights(forward_matrix()); }
    kernel::arch::InputGradWeights for_backward() const { return kernel::arch::InputGradWeights(input_grad_matrix()); }
#endif
};

#if defined(__x86_64__) && defined(__GNUC__)

namespace arch = kernel::arch;

struct Sizes {
    std::size_t N, M, K;
};

std::vector<Sizes> awkward() {
    std::vector<std::size_t> const sizes{1, 15, 16, 17, 31, 33, 47, 65, 100, 200};
    std::vector<Sizes>             all;
    for (std::size_t i = 0; i < 10; ++i) all.push_back({sizes[i], sizes[(3 * i + 1) % 10], sizes[(7 * i + 2) % 10]});
    for (std::size_t i = 0; i < 10; ++i) all.push_back({sizes[(7 * i + 3) % 10], sizes[i], sizes[(3 * i + 5) % 10]});
    for (Sizes more : {Sizes{32, 64, 96}, Sizes{700, 33, 65}, Sizes{40, 33, 1100}, Sizes{33, 1100, 64}, Sizes{64, 640, 640},
                       Sizes{1000, 33, 65}, Sizes{65, 1000, 33}, Sizes{33, 65, 1000}})
        all.push_back(more);
    return all;
}

/// A matrix whose rows lie further apart than they are long, between canaries.
template <class T>
struct Rows {
    std::size_t    rows, columns, stride;
    std::vector<T> data;

    static constexpr std::size_t margin = 64;

    Rows(std::size_t r, std::size_t c, std::size_t gap, std::uint32_t purpose, float canary = untouched)
        : rows(r), columns(c), stride(c + gap), data(r * (c + gap) + 2 * margin, T(canary)) {
        for (std::size_t i = 0; i < r; ++i)
            for (std::size_t j = 0; j < c; ++j) data[margin + i * stride + j] = number<T>(purpose, i * c + j);
    }
    tensor::View<T, 2>       view() { return {data.data() + margin, {rows, columns}, {stride, 1}}; }
    tensor::View<T const, 2> read() const { return {data.data() + margin, {rows, columns}, {stride, 1}}; }
    double                   operator()(std::size_t i, std::size_t j) const { return static_cast<double>(data[margin + i * stride + j]); }

    bool only_inside_touched() const {
        for (std::size_t i = 0; i < data.size(); ++i) {
            bool const inside = i >= margin && i < margin + rows * stride && (i - margin) % stride < columns;
            if (!inside && static_cast<float>(data[i]) != untouched) return false;
        }
        return true;
    }
};

/// The worst error of a result, in units of what rounding may do: sums of `steps` products of at most 1 each, then one rounding.
/// `slope` bounds how much what follows the sum magnifies its error, `extra` is allowed in addition.
template <class Out, class Expected>
double worst(Rows<Out> const& result, std::size_t steps, Expected expected, double slope = 1, double extra = 0) {
    double most = 0;
    for (std::size_t r = 0; r < result.rows; ++r)
        for (std::size_t c = 0; c < result.columns; ++c) {
            double const value   = expected(r, c);
            double const allowed = slope * static_cast<double>(steps * (steps + 2)) * 0x1p-24 +
                                   (std::is_same_v<Out, float> ? 0x1p-23 : 0x1p-8) * std::fabs(value) + extra;
            double const error = std::fabs(result(r, c) - value) / allowed;
            most               = error == error ? std::max(most, error) : std::numeric_limits<double>::infinity();
        }
    return most;
}

template <class A, class B>
double dot(std::size_t steps, A a, B b) {
    double sum = 0;
    for (std::size_t k = 0; k < steps; ++k) sum += a(k) * b(k);
    return sum;
}

double gelu(double x) { return x / (1 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x))); }

double gelu_derivative(double x) {
    double const s = 1 / (1 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
    return s + x * s * (1 - s) * 1.5957691216057308 * (1 + 3 * 0.044715 * x * x);
}

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class B, class Y>
void compare_forward(Sizes s, std::size_t gap) {
    std::size_t const N = s.N, M = s.M, K = s.K;
    INFO("N ", N, " M ", M, " K ", K, " gap ", gap);
    Rows<bfloat16> const x(N, K, gap, 1);
    Weight const         w(M, K, 2);
    Rows<Y>              y(N, M, gap, 3);
    std::vector<B>       bias(M);
    for (std::size_t m = 0; m < M; ++m) bias[m] = number<B>(5, m);
    tensor::View<B const, 1> const bias_view(bias.data(), {M});
    auto const                     product = [&](std::size_t n, std::size_t m) {
        return dot(
                                K, [&](std::size_t k) { return x(n, k); }, [&](std::size_t k) { return w(m, k); });
    };
    std::vector<double> sums(N * M);
    for (std::size_t i = 0; i < N * M; ++i) sums[i] = product(i / M, i % M);
    auto const sum    = [&](std::size_t n, std::size_t m) { return sums[n * M + m]; };
    auto const biased = [&](std::size_t n, std::size_t m) { return sum(n, m) + static_cast<double>(bias[m]); };

    for (arch::Stores stores : {arch::Stores::cached, arch::Stores::past_caches}) {
        arch::gemm_forward(arch::tiles{}, x.read(), w.for_forward(), tensor::View<B const, 1>{}, y.view(), stores);
        CHECK(worst(y, K, sum) <= 1.0);
        arch::gemm_forward(arch::tiles{}, x.read(), w.for_forward(), bias_view, y.view(), stores);
        CHECK(worst(y, K, biased) <= 1.0);
        CHECK(y.only_inside_touched());
        if constexpr (std::is_same_v<Y, bfloat16>) {
            Rows<bfloat16> pre(N, M, gap, 4);
            arch::gemm_forward_gelu(arch::tiles{}, x.read(), w.for_forward(), bias_view, pre.view(), y.view(), stores);
            CHECK(worst(pre, K, biased) <= 1.0);
            CHECK(worst(
                      y, 0, [&](std::size_t n, std::size_t m) { return gelu(pre(n, m)); }, 1, 2e-4 * 2e-1) <= 1.0);
            CHECK(pre.only_inside_touched());
            CHECK(y.only_inside_touched());
        }
    }
}

template <class DX>
void compare_input_grad(Sizes s, std::size_t gap) {
    std::size_t const N = s.N, M = s.M, K = s.K;
    INFO("N ", N, " M ", M, " K ", K, " gap ", gap);
    Rows<bfloat16> const dy(N, M, gap, 1);
    Weight const         w(M, K, 2);
    Rows<bfloat16> const pre(N, K, gap, 3);
    Rows<DX>             dx(N, K, gap, 4);
    std::vector<double>  sums(N * K);
    for (std::size_t i = 0; i < N * K; ++i)
        sums[i] = dot(
            M, [&](std::size_t m) { return dy(i / K, m); }, [&](std::size_t m) { return w(m, i % K); });
    for (arch::Stores stores : {arch::Stores::cached, arch::Stores::past_caches}) {
        arch::gemm_input_grad(arch::tiles{}, dy.read(), w.for_backward(), dx.view(), stores);
        CHECK(worst(dx, M, [&](std::size_t n, std::size_t k) { return sums[n * K + k]; }) <= 1.0);
        arch::gemm_input_grad_gelu(arch::tiles{}, dy.read(), w.for_backward(), pre.read(), dx.view(), stores);
        CHECK(worst(
                  dx, M, [&](std::size_t n, std::size_t k) { return sums[n * K + k] * gelu_derivative(pre(n, k)); }, 1.2,
                  2e-4 * std::sqrt(static_cast<double>(M))) <= 1.0);
        CHECK(dx.only_inside_touched());
    }
}

void compare_weight_grad(Sizes s, std::size_t gap) {
    std::size_t const N = s.N, M = s.M, K = s.K;
    INFO("N ", N, " M ", M, " K ", K, " gap ", gap);
    Rows<bfloat16> const dy(N, M, gap, 1), x(N, K, gap, 2);
    Weight               dw(M, K, 3);
    Rows<float>          db(1, M, 0, 4);
    Weight const         before    = dw;
    Rows<float> const    db_before = db;
    for (int repeat = 0; repeat < 2; ++repeat)
        arch::gemm_weight_grad(arch::tiles{}, dy.read(), x.read(), {dw.masters.data(), dw.map},
                               tensor::View<float, 1>(db.view().data(), {M}));
    Rows<float> result(M, K, 0, 5);
    for (std::size_t m = 0; m < M; ++m)
        for (std::size_t k = 0; k < K; ++k) result.view()(m, k) = dw.masters[dw.map(m, k)];
    CHECK(worst(result, 2 * N, [&](std::size_t m, std::size_t k) {
              return static_cast<double>(before.masters[dw.map(m, k)]) +
                     2 * dot(
                             N, [&](std::size_t n) { return dy(n, m); }, [&](std::size_t n) { return x(n, k); });
          }) <= 1.0);
    CHECK(worst(db, 2 * N, [&](std::size_t r, std::size_t m) {
              return db_before(r, m) + 2 * dot(
                                               N, [&](std::size_t n) { return dy(n, m); }, [](std::size_t) { return 1.0; });
          }) <= 1.0);
    CHECK(db.only_inside_touched());
    std::size_t kept = 0;
    for (float value : dw.masters) kept += value == 0.0f;
    CHECK(kept >= dw.map.size() - M * K);  // the padding
}

TEST_CASE("forward products of awkward sizes have the sums of double, whatever follows them") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    for (Sizes s : awkward())
        for (std::size_t gap : {0u, 7u, 32u}) {
            compare_forward<float, bfloat16>(s, gap);
            if (gap != 32) compare_forward<bfloat16, float>(s, gap);
        }
}

TEST_CASE("input gradients of awkward sizes have the sums of double") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    for (Sizes s : awkward())
        for (std::size_t gap : {0u, 7u, 32u}) {
            compare_input_grad<bfloat16>(s, gap);
            if (gap != 32) compare_input_grad<float>(s, gap);
        }
}

TEST_CASE("weight and bias gradients of awkward sizes are added to what was there, and padding stays zero") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    for (Sizes s : awkward())
        for (std::size_t gap : {0u, 7u}) compare_weight_grad(s, gap);
    compare_weight_grad({2200, 40, 70}, 0);  // several chunks of tokens
}

TEST_CASE("the number of threads does not change a bit") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    for (Sizes s : {Sizes{1100, 500, 260}, Sizes{515, 300, 1200}}) {
        std::size_t const           N = s.N, M = s.M, K = s.K;
        Rows<bfloat16> const        x(N, K, 0, 1), dy(N, M, 0, 3);
        Weight const                w(M, K, 2);
        std::vector<Rows<bfloat16>> ys, dxs;
        std::vector<Weight>         dws;
        std::vector<Rows<float>>    dbs;
        for (int threads : {1, 2, 3, 40}) {
            Rows<bfloat16> y(N, M, 0, 4), dx(N, K, 0, 5);
            Weight         dw(M, K, 6);
            Rows<float>    db(1, M, 0, 7);
            runtime::Threads(threads).run([&] {
                arch::gemm_forward(arch::tiles{}, x.read(), w.for_forward(), tensor::View<float const, 1>{}, y.view());
                arch::gemm_input_grad(arch::tiles{}, dy.read(), w.for_backward(), dx.view());
                arch::gemm_weight_grad(arch::tiles{}, dy.read(), x.read(), {dw.masters.data(), dw.map}, {db.view().data(), {M}});
            });
            ys.push_back(y), dxs.push_back(dx), dws.push_back(dw), dbs.push_back(db);
        }
        for (std::size_t i : {1u, 2u, 3u}) {
            CHECK(same_bits(ys[0].data, ys[i].data));
            CHECK(same_bits(dxs[0].data, dxs[i].data));
            CHECK(same_bits(dws[0].masters, dws[i].masters));
            CHECK(same_bits(dbs[0].data, dbs[i].data));
        }
    }
}

TEST_CASE("a row depends neither on the rows beside it nor on where the results go") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    std::size_t const    M = 70, K = 1190;
    Rows<bfloat16> const x(430, K, 2, 1), dy(430, M, 58, 2);
    Weight const         w(M, K, 3);
    Rows<float>          y(430, M, 2, 4), dx(430, K, 2, 5);
    arch::gemm_forward(arch::tiles{}, x.read(), w.for_forward(), tensor::View<float const, 1>{}, y.view(), arch::Stores::past_caches);
    arch::gemm_input_grad(arch::tiles{}, dy.read(), w.for_backward(), dx.view(), arch::Stores::past_caches);
    for (std::size_t first : {0u, 11u, 393u})
        for (std::size_t count : {5u, 37u}) {
            Rows<float> some_y(count, M, 0, 6), some_dx(count, K, 0, 7);
            arch::gemm_forward(arch::tiles{}, x.read().rows(first, first + count), w.for_forward(), tensor::View<float const, 1>{},
                               some_y.view(), arch::Stores::cached);
            arch::gemm_input_grad(arch::tiles{}, dy.read().rows(first, first + count), w.for_backward(), some_dx.view(),
                                  arch::Stores::cached);
            bool same = true;
            for (std::size_t r = 0; r < count; ++r) {
                same = same && std::memcmp(some_y.view().row(r).data(), y.view().row(first + r).data(), M * sizeof(float)) == 0;
                same = same && std::memcmp(some_dx.view().row(r).data(), dx.view().row(first + r).data(), K * sizeof(float)) == 0;
            }
            CHECK(same);
        }
}

TEST_CASE("what lies around the inputs reaches no result, though it be NaN") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    float const nan = std::numeric_limits<float>::quiet_NaN();
    for (Sizes s : {Sizes{33, 40, 50}, Sizes{64, 33, 64}, Sizes{5, 64, 1000}}) {
        std::size_t const    N = s.N, M = s.M, K = s.K;
        Rows<bfloat16> const x(N, K, 14, 1, nan), dy(N, M, 14, 2, nan);
        Weight               w(M, K, 3), dw(M, K, 4);
        Rows<float>          y(N, M, 0, 5), dx(N, K, 0, 6), db(1, M, 0, 7);
        arch::gemm_forward(arch::tiles{}, x.read(), w.for_forward(), tensor::View<float const, 1>{}, y.view());
        arch::gemm_input_grad(arch::tiles{}, dy.read(), w.for_backward(), dx.view());
        arch::gemm_weight_grad(arch::tiles{}, dy.read(), x.read(), {dw.masters.data(), dw.map}, {db.view().data(), {M}});
        auto const finite = [](std::vector<float> const& values) {
            return std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
        };
        CHECK(finite(y.data));
        CHECK(finite(dx.data));
        CHECK(finite(dw.masters));
        CHECK(finite(db.data));
    }
}

TEST_CASE("infinity in an input shows in its rows only, and never in the padding of a gradient") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    std::size_t const N = 40, M = 33, K = 50;
    Rows<bfloat16>    x(N, K, 0, 1), dy(N, M, 0, 2);
    Weight            w(M, K, 3), dw(M, K, 4);
    Rows<float>       y(N, M, 0, 5);
    x.view()(7, 3) = bfloat16(std::numeric_limits<float>::infinity());
    arch::gemm_forward(arch::tiles{}, x.read(), w.for_forward(), tensor::View<float const, 1>{}, y.view());
    arch::gemm_weight_grad(arch::tiles{}, dy.read(), x.read(), {dw.masters.data(), dw.map}, {});
    for (std::size_t n = 0; n < N; ++n) CHECK(std::isfinite(y(n, 0)) == (n != 7));
    std::vector<bool> used(dw.map.size(), false);
    for (std::size_t m = 0; m < M; ++m)
        for (std::size_t k = 0; k < K; ++k) {
            used[dw.map(m, k)] = true;
            CHECK(std::isfinite(dw.masters[dw.map(m, k)]) == (k != 3));
        }
    for (std::size_t i = 0; i < used.size(); ++i) CHECK((used[i] || dw.masters[i] == 0.0f));
}

TEST_CASE("gelu keeps NaN and is flat far from zero") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    std::size_t const  K = 1;
    std::vector<float> values{-1e30f, -90.0f, -3.0f, -0.0f, 1e-20f, 2.0f, 90.0f, 1e30f, std::numeric_limits<float>::quiet_NaN()};
    Rows<bfloat16>     x(values.size(), K, 0, 1), pre(values.size(), 1, 0, 2), y(values.size(), 1, 0, 3);
    Weight             w(1, K, 4);
    std::fill(w.masters.begin(), w.masters.end(), 0.0f);
    w.masters[0] = 1.0f;
    kernel::write_weight_copies(true, std::span<float const>(w.masters), std::span(w.forward), std::span(w.backward));
    for (std::size_t i = 0; i < values.size(); ++i) x.view()(i, 0) = bfloat16(values[i]);
    arch::gemm_forward_gelu(arch::tiles{}, x.read(), w.for_forward(), tensor::View<float const, 1>{}, pre.view(), y.view());
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
        double const v = x(i, 0);
        CHECK(std::fabs(y(i, 0) - (std::fabs(v) > 20 ? std::max(v, 0.0) : gelu(v))) <= 0x1p-8 * std::fabs(y(i, 0)) + 1e-4);
    }
    CHECK(std::isnan(y(values.size() - 1, 0)));
}

TEST_CASE("the probes compute") {
    CHECK(std::isfinite(kernel::FmaProbe::run()));
    if (kernel::available(kernel::Isa::avx512)) CHECK(kernel::PairProbe::run() > 0.0f);
    if (kernel::available(kernel::Isa::amx)) CHECK(kernel::TileProbe::run() == 0.0f);  // it multiplies zeros
}

#endif

TEST_CASE("products of weights in both copies are the same through the front door, on every family") {
    kernel::Isa const before = kernel::isa();
    for (Sizes s : {Sizes{33, 65, 100}, Sizes{16, 31, 47}, Sizes{1, 1, 1}, Sizes{64, 96, 32}}) {
        Rows<bfloat16> const x(s.N, s.K, 7, 1), dy(s.N, s.M, 7, 3);
        Weight const         w(s.M, s.K, 2);
        for (kernel::Isa isa : {kernel::Isa::scalar, kernel::Isa::simd, kernel::Isa::avx512, kernel::Isa::amx}) {
            if (!kernel::available(isa)) continue;
            kernel::use(isa);
            Rows<float> y(s.N, s.M, 0, 4), dx(s.N, s.K, 0, 5);
            kernel::gemm_forward(x.read(), w.forward_matrix(), tensor::View<bfloat16 const, 1>{}, y.view());
            kernel::gemm_input_grad(dy.read(), w.input_grad_matrix(), dx.view());
            double worst = 0;
            for (std::size_t n = 0; n < s.N; ++n) {
                for (std::size_t m = 0; m < s.M; ++m) {
                    double sum = 0;
                    for (std::size_t k = 0; k < s.K; ++k) sum += x(n, k) * w(m, k);
                    worst = std::max(worst, std::fabs(sum - y(n, m)));
                }
                for (std::size_t k = 0; k < s.K; ++k) {
                    double sum = 0;
                    for (std::size_t m = 0; m < s.M; ++m) sum += dy(n, m) * w(m, k);
                    worst = std::max(worst, std::fabs(sum - dx(n, k)));
                }
            }
            CHECK(worst < 1e-4);
        }
    }
    kernel::use(before);
}

TEST_CASE("both copies of a weight hold its elements in their places, with the bits of bfloat16") {
    Weight w(70, 100, 1);
    w.masters[0] = std::numeric_limits<float>::quiet_NaN(), w.masters[1] = -std::numeric_limits<float>::infinity();
    w.masters[2] = 1e-40f, w.masters[3] = 1.00390625f, w.masters[4] = 1.01171875f, w.masters[5] = 3.4e38f, w.masters[6] = -0.0f;
    kernel::write_weight_copies(true, std::span<float const>(w.masters), std::span(w.forward), std::span(w.backward));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < w.map.size(); ++i) {
        std::size_t const   tile = i / kernel::tile_elements * kernel::tile_elements, r = i % kernel::tile_elements / 32, c = i % 32;
        std::uint16_t const bits = bfloat16(w.masters[i]).bits;
        wrong += w.forward[tile + (r / 16 * 512 + c / 2 * 32 + r % 16 * 2 + c % 2)].bits != bits;
        wrong += w.backward[tile + (c / 16 * 512 + r / 2 * 32 + c % 16 * 2 + r % 2)].bits != bits;
    }
    CHECK(wrong == 0);
}

}  // namespace tiles_gemm_test
