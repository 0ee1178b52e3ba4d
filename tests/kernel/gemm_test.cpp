#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/kernel/gemm.hpp"

namespace gemm_test {

using namespace lockstep;
using precision::bfloat16;
using precision::float16;
using state::Layout;

constexpr float untouched = 768.0f;  // exact in every type

struct Sizes {
    std::size_t N, M, K;
};

/// Every awkward size in every dimension, and more steps than one chain and one tile hold.
std::vector<Sizes> awkward() {
    std::vector<std::size_t> const sizes{1, 15, 16, 17, 31, 33, 47, 65, 100};
    std::vector<Sizes>             all;
    for (std::size_t i = 0; i < 9; ++i) all.push_back({sizes[i], sizes[(2 * i + 1) % 9], sizes[(4 * i + 2) % 9]});
    for (std::size_t i = 0; i < 9; ++i) all.push_back({sizes[(5 * i + 3) % 9], sizes[i], sizes[(7 * i + 1) % 9]});
    all.push_back({17, 33, 300});
    all.push_back({300, 17, 15});
    all.push_back({15, 300, 16});
    return all;
}

/// More than one task in each dimension: tiles of the output are at most 364 x 384.
std::vector<Sizes> const several_tiles{{1000, 17, 33}, {17, 1000, 33}, {33, 17, 1000}, {400, 400, 33}};

template <class T>
double unit_roundoff() {
    if constexpr (std::is_same_v<T, double>) return 0x1p-53;
    if constexpr (std::is_same_v<T, float>) return 0x1p-24;
    return std::is_same_v<T, bfloat16> ? 0x1p-8 : 0x1p-11;
}

template <class T>
T number(std::uint32_t purpose, std::size_t i) {
    return static_cast<T>(static_cast<float>(2.0 * unit_interval(random_bits({7, purpose, 0}, i)) - 1.0));
}

/// Rows of a view that lie further apart than they are long.
template <class T>
struct Rows {
    std::size_t    rows, columns, stride;
    std::vector<T> data;

    Rows(std::size_t r, std::size_t c, std::size_t gap, std::uint32_t purpose)
        : rows(r), columns(c), stride(c + gap), data(r * (c + gap), static_cast<T>(untouched)) {
        for (std::size_t i = 0; i < r; ++i)
            for (std::size_t j = 0; j < c; ++j) data[i * stride + j] = number<T>(purpose, i * c + j);
    }
    tensor::View<T, 2>       view() { return {data.data(), {rows, columns}, {stride, 1}}; }
    tensor::View<T const, 2> read() const { return {data.data(), {rows, columns}, {stride, 1}}; }
    double                   operator()(std::size_t i, std::size_t j) const { return static_cast<double>(data[i * stride + j]); }

    bool gaps_untouched() const {
        for (std::size_t i = 0; i < data.size(); ++i)
            if (i % stride >= columns && static_cast<float>(data[i]) != untouched) return false;
        return true;
    }
};

template <class T>
struct Laid {
    state::MatrixMap map;
    std::vector<T>   data;

    Laid(std::size_t rows, std::size_t columns, Layout layout, std::uint32_t purpose)
        : map(rows, columns, layout), data(map.size(), static_cast<T>(untouched)) {
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < columns; ++j) data[map(i, j)] = number<T>(purpose, i * columns + j);
    }
    state::Matrix<T>       matrix() { return {data.data(), map}; }
    state::Matrix<T const> read() const { return {data.data(), map}; }
    double                 operator()(std::size_t i, std::size_t j) const { return static_cast<double>(data[map(i, j)]); }

    bool padding_untouched() const {
        std::vector<bool> used(data.size(), false);
        for (std::size_t i = 0; i < map.rows(); ++i)
            for (std::size_t j = 0; j < map.columns(); ++j) used[map(i, j)] = true;
        for (std::size_t i = 0; i < data.size(); ++i)
            if (!used[i] && static_cast<float>(data[i]) != untouched) return false;
        return true;
    }
};

/// Worst error of result(r,c) against start(r,c) + sum of a(r,k) b(k,c), in units of what rounding may do.
template <class Sum, class Out, class Result, class Start, class A, class B>
double worst(std::size_t rows, std::size_t columns, std::size_t steps, Result const& result, Start start, A a, B b) {
    double most = 0;
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c) {
            double sum = start(r, c), size = std::fabs(sum);
            for (std::size_t k = 0; k < steps; ++k) {
                sum += a(r, k) * b(k, c);
                size += std::fabs(a(r, k) * b(k, c));
            }
            double const rounding = unit_roundoff<Out>() * std::fabs(sum) + (std::is_same_v<Out, float16> ? 0x1p-25 : 1e-30);  // subnormals
            double const allowed  = static_cast<double>(steps + 2) * unit_roundoff<Sum>() * size + rounding;
            double const error    = std::fabs(result(r, c) - sum) / allowed;
            most                  = error >= most ? error : (error == error ? most : std::numeric_limits<double>::infinity());
        }
    return most;
}

std::vector<Layout> const layouts{{},
                                  {4, 3},
                                  {4, 3, state::TileOrder::columns},
                                  {32, 32},
                                  {32, 32, state::TileOrder::column_pairs},
                                  {32, 32, state::TileOrder::row_pairs}};

/// All forms with inputs and weights X, and Y for outputs and for gradients that come in and go out.
template <class X, class Y>
void compare_with_reference(Sizes s, Layout layout, std::size_t gap) {
    using Sum           = precision::accumulator<X>;
    std::size_t const N = s.N, M = s.M, K = s.K;
    INFO("N ", N, " M ", M, " K ", K, " tiles ", layout.panel_rows, "x", layout.tile_columns, " gap ", gap);
    Rows<X> const  x(N, K, gap, 1);
    Laid<X> const  w(M, K, layout, 2);
    Rows<Y>        y(N, M, gap, 3);
    std::vector<X> bias(M);
    for (std::size_t m = 0; m < M; ++m) bias[m] = number<X>(4, m);

    auto const none = [](std::size_t, std::size_t) { return 0.0; };
    auto const x_nk = [&](std::size_t n, std::size_t k) { return x(n, k); };
    kernel::gemm_forward(x.read(), w.read(), tensor::View<X const, 1>(bias.data(), {M}), y.view());
    CHECK((worst<Sum, Y>(
               N, M, K, y, [&](std::size_t, std::size_t m) { return static_cast<double>(bias[m]); }, x_nk,
               [&](std::size_t k, std::size_t m) { return w(m, k); }) <= 1.0));
    kernel::gemm_forward(x.read(), w.read(), tensor::View<X const, 1>{}, y.view());
    CHECK((worst<Sum, Y>(N, M, K, y, none, x_nk, [&](std::size_t k, std::size_t m) { return w(m, k); }) <= 1.0));
    CHECK(y.gaps_untouched());

    Rows<Y> const dy(N, M, gap, 5);
    Rows<Y>       dx(N, K, gap, 6);
    kernel::gemm_input_grad(dy.read(), w.read(), dx.view());
    CHECK((worst<Sum, Y>(N, K, M, dx, none, dy, w) <= 1.0));
    CHECK(dx.gaps_untouched());

    Laid<Sum>       dw(M, K, layout, 8);
    Laid<Sum> const before = dw;
    kernel::gemm_weight_grad(dy.read(), x.read(), dw.matrix(), {});
    CHECK((worst<Sum, Sum>(
               M, K, N, dw, before, [&](std::size_t m, std::size_t n) { return dy(n, m); }, x_nk) <= 1.0));
    CHECK(dw.padding_untouched());

    std::vector<Sum> db(M, Sum(0.5));
    kernel::bias_grad(dy.read(), tensor::View<Sum, 1>(db.data(), {M}));
    auto const db_m = [&](std::size_t, std::size_t m) { return static_cast<double>(db[m]); };
    auto const half = [](std::size_t, std::size_t) { return 0.5; };
    auto const one  = [](std::size_t, std::size_t) { return 1.0; };
    CHECK((worst<Sum, Sum>(1, M, N, db_m, half, one, dy) <= 1.0));
}

struct RestoreIsa {
    kernel::Isa before = kernel::isa();
    ~RestoreIsa() { kernel::use(before); }
};

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

TEST_CASE_TEMPLATE_DEFINE("products of every form agree with sums in double", Pair, products) {
    using X = typename Pair::first_type;
    using Y = typename Pair::second_type;
    RestoreIsa restore;
    for (kernel::Isa isa : {kernel::Isa::scalar, kernel::Isa::simd}) {
        if (!kernel::available(isa)) continue;
        kernel::use(isa);
        CAPTURE(kernel::name(isa));
        std::size_t turn = 0;
        for (Sizes s : awkward()) {
            compare_with_reference<X, Y>(s, layouts[0], turn % 3);
            compare_with_reference<X, Y>(s, layouts[1 + turn % 3], turn % 2);
            ++turn;
        }
        for (Sizes s : several_tiles) compare_with_reference<X, Y>(s, layouts[turn++ % 4], 1);
    }
}
TEST_CASE_TEMPLATE_INVOKE(products, std::pair<float, float>, std::pair<bfloat16, bfloat16>, std::pair<bfloat16, float>,
                          std::pair<float16, float16>, std::pair<float16, float>, std::pair<double, double>);

TEST_CASE("a 16-bit weight multiplies fp32 rows, and fp32 gradients give 16-bit ones") {
    Rows<float> const    x(17, 33, 0, 1);
    Laid<bfloat16> const w(20, 33, {}, 2);
    Rows<float>          y(17, 20, 0, 3);
    Rows<bfloat16>       dx(17, 33, 0, 4);
    kernel::gemm_forward(x.read(), w.read(), tensor::View<float const, 1>{}, y.view());
    kernel::gemm_input_grad(y.read(), w.read(), dx.view());
    auto const none = [](std::size_t, std::size_t) { return 0.0; };
    CHECK((worst<float, float>(17, 20, 33, y, none, x, [&](std::size_t k, std::size_t m) { return w(m, k); }) <= 1.0));
    CHECK((worst<float, bfloat16>(17, 33, 20, dx, none, y, w) <= 1.0));
}

TEST_CASE("results have the same bits for any number of threads") {
    Sizes const                     s{150, 200, 1100};
    Rows<float> const               x(s.N, s.K, 0, 1), dy(s.N, s.M, 0, 2);
    Laid<float> const               w(s.M, s.K, {}, 3);
    Rows<float>                     y(s.N, s.M, 0, 4), dx(s.N, s.K, 0, 5);
    std::vector<Rows<float>>        ys, dxs;
    std::vector<std::vector<float>> dws, dbs;
    for (int threads : {1, 2, 3, 40}) {
        Laid<float>        dw(s.M, s.K, {}, 6);
        std::vector<float> db(s.M, 0.0f);
        runtime::Threads(threads).run([&] {
            kernel::gemm_forward(x.read(), w.read(), tensor::View<float const, 1>{}, y.view());
            kernel::gemm_input_grad(dy.read(), w.read(), dx.view());
            kernel::gemm_weight_grad(dy.read(), x.read(), dw.matrix(), {});
            kernel::bias_grad(dy.read(), tensor::View<float, 1>(db.data(), {s.M}));
        });
        ys.push_back(y), dxs.push_back(dx), dws.push_back(dw.data), dbs.push_back(db);
    }
    for (std::size_t i : {1u, 2u, 3u}) {
        CHECK(same_bits(ys[0].data, ys[i].data));
        CHECK(same_bits(dxs[0].data, dxs[i].data));
        CHECK(same_bits(dws[0], dws[i]));
        CHECK(same_bits(dbs[0], dbs[i]));
    }
}

TEST_CASE("a row does not depend on which rows are computed with it") {
    std::size_t const  M = 70, K = 600;
    Rows<float> const  x(430, K, 0, 1), dy(430, M, 0, 2);
    Laid<float> const  w(M, K, {}, 3);
    Rows<float>        y(430, M, 0, 4), dx(430, K, 0, 5);
    std::vector<float> some_y(5 * M), some_dx(5 * K);
    kernel::gemm_forward(x.read(), w.read(), tensor::View<float const, 1>{}, y.view());
    kernel::gemm_input_grad(dy.read(), w.read(), dx.view());
    for (std::size_t first : {0u, 11u, 425u}) {
        kernel::gemm_forward(x.read().rows(first, first + 5), w.read(), tensor::View<float const, 1>{},
                             tensor::View<float, 2>(some_y.data(), {5, M}));
        kernel::gemm_input_grad(dy.read().rows(first, first + 5), w.read(), tensor::View<float, 2>(some_dx.data(), {5, K}));
        CHECK(std::memcmp(some_y.data(), y.view().row(first).data(), some_y.size() * sizeof(float)) == 0);
        CHECK(std::memcmp(some_dx.data(), dx.view().row(first).data(), some_dx.size() * sizeof(float)) == 0);
    }
}

TEST_CASE("the layout of a weight does not change a bit") {
    Rows<bfloat16> const x(40, 70, 0, 1);
    Rows<float>          first(40, 50, 0, 2), other(40, 50, 0, 3);
    kernel::gemm_forward(x.read(), Laid<bfloat16>(50, 70, {}, 4).read(), tensor::View<float const, 1>{}, first.view());
    for (Layout layout : layouts) {
        kernel::gemm_forward(x.read(), Laid<bfloat16>(50, 70, layout, 4).read(), tensor::View<float const, 1>{}, other.view());
        CHECK(same_bits(first.data, other.data));
    }
}

TEST_CASE("a sum of nothing is the bias, or zero, or leaves what was there") {
    RestoreIsa restore;
    for (kernel::Isa isa : {kernel::Isa::scalar, kernel::Isa::simd}) {
        if (!kernel::available(isa)) continue;
        kernel::use(isa);
        std::vector<float>     bias{1.0f, 2.0f, 3.0f}, y(6, untouched), dx(10, untouched), dw(15, untouched), db(3, untouched);
        tensor::View<float, 2> no_k(y.data(), {2, 0}), no_m(y.data(), {2, 0}), no_n(y.data(), {0, 3});
        state::Matrix<float>   w_no_k{dw.data(), {3, 0}}, w_no_m{dw.data(), {0, 5}}, w{dw.data(), {3, 5}};
        kernel::gemm_weight_grad(no_n, tensor::View<float, 2>(dx.data(), {0, 5}), w, {});
        kernel::bias_grad(no_n, tensor::View<float, 1>(db.data(), {3}));
        kernel::gemm_forward(tensor::View<float, 2>(dx.data(), {0, 5}), w, tensor::View<float, 1>{}, no_n);
        CHECK(dw == std::vector<float>(15, untouched));
        CHECK(db == std::vector<float>(3, untouched));
        kernel::gemm_forward(no_k, w_no_k, tensor::View<float, 1>(bias.data(), {3}), tensor::View<float, 2>(y.data(), {2, 3}));
        CHECK(y == std::vector<float>{1, 2, 3, 1, 2, 3});
        kernel::gemm_input_grad(no_m, w_no_m, tensor::View<float, 2>(dx.data(), {2, 5}));
        CHECK(dx == std::vector<float>(10, 0.0f));
    }
}

TEST_CASE("a product with infinity or NaN shows it, and only where it belongs") {
    Rows<float>       x(20, 40, 0, 1);
    Laid<float> const w(33, 40, {}, 2);
    Rows<float>       y(20, 33, 0, 3);
    x.data[5 * x.stride + 7] = std::numeric_limits<float>::infinity();
    x.data[19 * x.stride]    = std::numeric_limits<float>::quiet_NaN();
    kernel::gemm_forward(x.read(), w.read(), tensor::View<float const, 1>{}, y.view());
    for (std::size_t n = 0; n < 20; ++n)
        for (std::size_t m = 0; m < 33; ++m) CHECK(std::isfinite(y(n, m)) == (n != 5 && n != 19));
}

TEST_CASE("shapes that do not fit are refused with both shapes in the sentence") {
    std::vector<float>     data(100);
    tensor::View<float, 2> x(data.data(), {2, 3}), y(data.data(), {2, 5});
    state::Matrix<float>   w{data.data(), {5, 4}};
    auto const             sentence_of = [](auto&& call) {
        try {
            call();
        } catch (Error const& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    auto const says = [&](std::string const& part, auto&& call) { return sentence_of(call).find(part) != std::string::npos; };
    CHECK(says("found x (2,3), w [5,4], y (2,5)", [&] { kernel::gemm_forward(x, w, tensor::View<float, 1>{}, y); }));
    CHECK(says("found dy (2,5), w [5,4], dx (2,3)", [&] { kernel::gemm_input_grad(y, w, x); }));
    CHECK(says("found dy (2,5), x (2,3), dw [5,4]", [&] { kernel::gemm_weight_grad(y, x, w, {}); }));
    CHECK(says("found dy (2,5), db (4)", [&] { kernel::bias_grad(y, tensor::View<float, 1>(data.data(), {4})); }));
}

TEST_CASE("tiles cover the output and none is empty") {
    for (std::size_t rows : {1u, 14u, 100u, 768u, 5000u})
        for (std::size_t columns : {1u, 33u, 384u, 50257u}) {
            auto const tiling = kernel::tile_product({rows, columns, 768}, {14, 32, 364, 384});
            CHECK(tiling.rows % 14 == 0);
            CHECK(tiling.columns % 32 == 0);
            CHECK(((tiling.down - 1) * tiling.rows < rows && rows <= tiling.down * tiling.rows));
            CHECK(((tiling.across - 1) * tiling.columns < columns && columns <= tiling.across * tiling.columns));
            CHECK((tiling.rows <= 364 && tiling.columns <= 384));
        }
}

}  // namespace gemm_test
