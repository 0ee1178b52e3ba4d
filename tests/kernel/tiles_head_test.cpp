// Head and cross entropy on tiles against double, over awkward sizes. Where the machine has no tiles, nothing is tested.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/kernel/head_loss.hpp"
#include "lockstep/kernel/weight_copies.hpp"
#include "tile_unit.hpp"

#if LOCKSTEP_TILES

namespace tiles_head_test {

using namespace lockstep;
using kernel::packed_layout;
using precision::bfloat16;

double uniform(std::uint32_t purpose, std::size_t i) { return 2.0 * unit_interval(random_bits({9, purpose, 0}, i)) - 1.0; }

/// A head (V,C) and N tokens, between canaries and with gaps between the rows.
struct Case {
    std::size_t               N, V, C, stride;
    state::MatrixMap          map;
    std::vector<float>        masters, dw;
    std::vector<bfloat16>     forward, backward, h, dh;
    std::vector<std::int32_t> labels;
    std::vector<float>        loss, lse;
    std::vector<std::byte>    memory;

    static constexpr float before = 0.5f, untouched = 768.0f;  // exact in bfloat16

    /// Logits are some `scale` * sqrt(C) / 3 large.
    Case(std::size_t tokens, std::size_t vocab, std::size_t channels, double scale = 1.0)
        : N(tokens),
          V(vocab),
          C(channels),
          stride(channels + 7),
          map(V, C, packed_layout),
          masters(map.size()),
          dw(map.size()),
          forward(map.size()),
          backward(map.size()),
          h(N * stride, bfloat16(untouched)),
          dh(N * stride, bfloat16(untouched)),
          labels(N),
          loss(N, untouched),
          lse(N, untouched),
          memory(kernel::head_chunk(N, V, {2, true}).bytes, std::byte{0xFF}) {  // NaN
        for (std::size_t v = 0; v < V; ++v)
            for (std::size_t c = 0; c < C; ++c) {
                masters[map(v, c)] = static_cast<float>(uniform(1, v * C + c));
                dw[map(v, c)]      = before;
            }
        for (std::size_t n = 0; n < N; ++n) {
            for (std::size_t c = 0; c < C; ++c) h[n * stride + c] = bfloat16(static_cast<float>(scale * uniform(2, n * C + c)));
            labels[n] = n % 5 == 3 ? ignored_label : static_cast<std::int32_t>(31 * n % V);
        }
        pack();
    }

    void pack() { kernel::write_weight_copies<float, bfloat16>(true, masters, forward, backward); }

    state::Matrix<bfloat16 const> w() const { return {forward.data(), map.reordered(state::TileOrder::column_pairs)}; }
    state::Matrix<bfloat16 const> w_input_grad() const { return {backward.data(), map.reordered(state::TileOrder::row_pairs)}; }

    tensor::View<bfloat16, 2> rows(std::vector<bfloat16>& of, std::size_t begin, std::size_t end) const {
        return {of.data() + begin * stride, {end - begin, C}, {stride, 1}};
    }
    void run_forward(std::size_t begin, std::size_t end) {
        kernel::head_loss(rows(h, begin, end), w(), std::span<std::int32_t const>(labels).subspan(begin, end - begin),
                          tensor::View<float, 1>(loss.data() + begin, {end - begin}),
                          tensor::View<float, 1>(lse.data() + begin, {end - begin}), {});
    }
    void run_backward(std::size_t begin, std::size_t end, float scale) {
        kernel::head_loss_backward(
            rows(h, begin, end), w(), w_input_grad(), std::span<std::int32_t const>(labels).subspan(begin, end - begin), scale,
            tensor::View<float, 1>(loss.data() + begin, {end - begin}), tensor::View<float, 1>(lse.data() + begin, {end - begin}),
            state::Matrix<float>{dw.data(), map}, rows(dh, begin, end), memory);
    }
    void run_forward() { run_forward(0, N); }
    void run_backward(float scale) { run_backward(0, N, scale); }

    double weight(std::size_t v, std::size_t c) const { return static_cast<double>(static_cast<float>(bfloat16(masters[map(v, c)]))); }
    double input(std::size_t n, std::size_t c) const { return static_cast<double>(static_cast<float>(h[n * stride + c])); }
};

/// The same in double, straight from the definitions.
struct Expected {
    std::vector<double> loss, lse, dh, dw, dw_size;  // dw_size: sums of the magnitudes of the terms

    Expected(Case const& k, double scale) : loss(k.N), lse(k.N), dh(k.N * k.C), dw(k.V * k.C), dw_size(k.V * k.C) {
        std::vector<double> logits(k.V);
        for (std::size_t n = 0; n < k.N; ++n) {
            if (k.labels[n] == ignored_label) continue;
            auto const label = static_cast<std::size_t>(k.labels[n]);
            double     most = -std::numeric_limits<double>::infinity(), sum = 0;
            for (std::size_t v = 0; v < k.V; ++v) {
                logits[v] = 0;
                for (std::size_t c = 0; c < k.C; ++c) logits[v] += k.input(n, c) * k.weight(v, c);
                most = std::max(most, logits[v]);
            }
            for (double logit : logits) sum += std::exp(logit - most);
            lse[n]  = most + std::log(sum);
            loss[n] = lse[n] - logits[label];
            for (std::size_t v = 0; v < k.V; ++v) {
                double const d = scale * (v == label ? std::expm1(-loss[n]) : std::exp(logits[v] - lse[n]));
                for (std::size_t c = 0; c < k.C; ++c) {
                    dh[n * k.C + c] += d * k.weight(v, c);
                    dw[v * k.C + c] += d * k.input(n, c);
                    dw_size[v * k.C + c] += std::abs(d * k.input(n, c));
                }
            }
        }
    }
};

void compare(Case k, double magnitude) {
    CAPTURE(k.N);
    CAPTURE(k.V);
    CAPTURE(k.C);
    double const   scale = 0.125;
    Expected const right(k, scale);
    double const   sums = magnitude * 0x1p-20 + 2e-6;  // what fp32 sums may lose of a logit
    for (bool const backward : {false, true}) {
        backward ? k.run_backward(static_cast<float>(scale)) : k.run_forward();
        double worst = 0;
        for (std::size_t n = 0; n < k.N; ++n)
            for (double const error : {static_cast<double>(k.loss[n]) - right.loss[n], static_cast<double>(k.lse[n]) - right.lse[n]})
                worst = error == error ? std::max(worst, std::abs(error)) : std::numeric_limits<double>::infinity();
        CHECK(worst < sums * 4);
    }
    // Each term is rounded to bfloat16, for dw twice; the magnitudes of the terms of dh sum up to at most 2, and it is rounded once more.
    double worst_dw = 0, worst_dh = 0, padding = 0;
    for (std::size_t v = 0; v < k.V; ++v)
        for (std::size_t c = 0; c < k.C; ++c) {
            double const error = std::abs(static_cast<double>(k.dw[k.map(v, c)] - Case::before) - right.dw[v * k.C + c]);
            worst_dw           = std::max(worst_dw, error / (right.dw_size[v * k.C + c] * (0x1p-7 + sums) + 1e-6));
        }
    for (std::size_t n = 0; n < k.N; ++n)
        for (std::size_t c = 0; c < k.stride; ++c) {
            double const found = static_cast<double>(static_cast<float>(k.dh[n * k.stride + c]));
            if (c >= k.C)
                CHECK(found == static_cast<double>(Case::untouched));
            else
                worst_dh = std::max(worst_dh, std::abs(found - right.dh[n * k.C + c]) / (scale * 4 * (0x1p-8 + sums)));
        }
    CHECK(worst_dw <= 1.0);
    CHECK(worst_dh <= 1.0);
    std::vector<float> rest = k.dw;
    for (std::size_t v = 0; v < k.V; ++v)
        for (std::size_t c = 0; c < k.C; ++c) rest[k.map(v, c)] = 0;
    for (float const value : rest) padding += value == 0.0f ? 0 : 1;
    CHECK(padding == 0);
}

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

TEST_CASE("losses and gradients of awkward sizes are those of double") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    std::vector<std::size_t> const sizes{1, 15, 16, 17, 31, 33, 47, 65, 100, 1000};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        std::size_t const a = sizes[i], b = sizes[(3 * i + 1) % 10], c = sizes[(7 * i + 2) % 10];
        compare(Case(a, b, std::min<std::size_t>(c, 100)), 12);
        compare(Case(std::min<std::size_t>(b, 100), a, std::min<std::size_t>(c, 100)), 12);
    }
    compare(Case(40, 257, 960), 40);  // sums of channels in several chunks
    compare(Case(70, 1100, 33), 8);   // blocks of columns
    compare(Case(600, 2100, 40), 8);  // parts of rows and of columns
    compare(Case(70, 4200, 33), 8);   // ranges of columns
    compare(Case(1100, 65, 20), 8);   // chunks of tokens
}

TEST_CASE("TRAPS 20: logits 1000, 0 and a uniform distribution over 50257") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    Case two(2, 2, 1);
    two.masters[two.map(0, 0)] = 1000.0f;
    two.masters[two.map(1, 0)] = 0.0f;
    two.pack();
    two.h[0] = two.h[two.stride] = bfloat16(1.0f);
    two.labels                   = {0, 1};
    two.run_backward(1.0f);
    CHECK(two.loss[0] == 0.0f);
    CHECK(two.loss[1] == 1000.0f);
    CHECK(two.dw[two.map(0, 0)] == Case::before + 1.0f);
    CHECK(two.dw[two.map(1, 0)] == Case::before - 1.0f);

    Case uniform_case(1, 50257, 2, 0.0);
    uniform_case.run_forward();
    CHECK(uniform_case.loss[0] == doctest::Approx(10.8249051197).epsilon(1e-7));
}

TEST_CASE("logits that grow far beyond the first ones, and fall far below, keep losses and gradients right") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    for (double const step : {0.5, -0.5, 3.0}) {
        CAPTURE(step);
        Case k(37, 1300, 2);
        for (std::size_t v = 0; v < k.V; ++v) {
            k.masters[k.map(v, 0)] = static_cast<float>(step * static_cast<double>(v));
            k.masters[k.map(v, 1)] = static_cast<float>(v % 3);
        }
        k.pack();
        for (std::size_t n = 0; n < k.N; ++n)
            k.h[n * k.stride] = bfloat16(n % 2 == 0 ? 1.0f : -0.5f), k.h[n * k.stride + 1] = bfloat16(1.0f);
        Expected const right(k, 1);
        k.run_backward(1.0f);
        for (std::size_t n = 0; n < k.N; ++n)
            CHECK(static_cast<double>(k.loss[n]) == doctest::Approx(right.loss[n]).epsilon(1e-5).scale(1));
        double worst = 0;
        for (std::size_t v = 0; v < k.V; ++v)
            for (std::size_t c = 0; c < 2; ++c) {
                double const error = std::abs(static_cast<double>(k.dw[k.map(v, c)] - Case::before) - right.dw[v * 2 + c]);
                worst              = std::max(worst, error / (right.dw_size[v * 2 + c] * 0x1p-6 + 1e-5));
            }
        CHECK(worst <= 1.0);
    }
}

TEST_CASE("the number of threads does not change a bit") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    for (auto const& [N, V, C] : {std::array<std::size_t, 3>{700, 1700, 400}, {130, 65, 96}, {65, 5000, 70}}) {
        std::vector<Case> runs;
        for (int threads : {1, 2, 3}) {
            Case k(N, V, C);
            runtime::Threads(threads).run([&] { k.run_backward(0.5f); });
            runs.push_back(std::move(k));
            Case only_loss(N, V, C);
            runtime::Threads(threads).run([&] { only_loss.run_forward(); });
            CHECK(same_bits(only_loss.loss, runs[0].loss));
            CHECK(same_bits(only_loss.lse, runs[0].lse));
        }
        for (std::size_t i : {1u, 2u}) {
            CHECK(same_bits(runs[0].loss, runs[i].loss));
            CHECK(same_bits(runs[0].lse, runs[i].lse));
            CHECK(same_bits(runs[0].dw, runs[i].dw));
            CHECK(same_bits(runs[0].dh, runs[i].dh));
        }
    }
}

TEST_CASE("a token's loss and gradient depend neither on the tokens beside it nor on the chunk") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    Case whole(300, 1200, 80), parts(300, 1200, 80);
    whole.run_backward(0.5f);
    for (std::size_t begin : {0u, 11u, 64u, 101u, 299u}) {
        std::size_t const end = begin == 0 ? 11 : begin == 11 ? 64 : begin == 64 ? 101 : begin == 101 ? 299 : 300;
        parts.run_backward(begin, end, 0.5f);
    }
    CHECK(same_bits(whole.loss, parts.loss));
    CHECK(same_bits(whole.lse, parts.lse));
    CHECK(same_bits(whole.dh, parts.dh));
    double worst = 0;
    for (std::size_t i = 0; i < whole.dw.size(); ++i) worst = std::max(worst, static_cast<double>(std::abs(whole.dw[i] - parts.dw[i])));
    CHECK(worst < 1e-4);
}

TEST_CASE("NaN and infinity in a used token reach its loss and gradients; an ignored one reaches nothing") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    for (float const bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
        for (std::size_t const vocab : {40u, 600u}) {
            Case k(7, vocab, 20);
            k.labels              = {1, ignored_label, 3, 4, 5, 6, 7};
            k.h[1 * k.stride + 4] = bfloat16(bad);
            k.run_backward(1.0f);
            CHECK(k.loss[1] == 0.0f);
            CHECK(std::ranges::all_of(k.loss, [](float v) { return std::isfinite(v); }));
            CHECK(std::ranges::all_of(k.dw, [](float v) { return std::isfinite(v); }));
            CHECK(std::ranges::all_of(k.dh, [](bfloat16 v) { return std::isfinite(static_cast<float>(v)); }));
            k.h[2 * k.stride + 4] = bfloat16(bad);
            k.run_backward(1.0f);
            CHECK(std::isnan(k.loss[2]));
            CHECK(std::isfinite(k.loss[3]));
            CHECK(std::isnan(static_cast<float>(k.dh[2 * k.stride])));
            CHECK(std::isfinite(static_cast<float>(k.dh[3 * k.stride])));
            CHECK(std::isnan(k.dw[k.map(0, 4)]));
            for (std::size_t i = 0; i < k.map.size(); ++i) {  // padding stays zero
                std::size_t const tile = i / 1024, row = tile * 32 + i % 1024 / 32, column = i % 32;
                if (row >= k.V || column >= k.C) CHECK(k.dw[i] == 0.0f);
            }
            k.run_forward();
            CHECK(std::isnan(k.loss[2]));
            CHECK(k.loss[1] == 0.0f);
        }
}

TEST_CASE("a chunk without a valid token has no loss and no gradient") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    Case k(40, 100, 33);
    std::ranges::fill(k.labels, ignored_label);
    std::vector<float> const before = k.dw;
    k.run_backward(1.0f);
    CHECK(std::ranges::all_of(k.loss, [](float v) { return v == 0.0f; }));
    CHECK(std::ranges::all_of(k.lse, [](float v) { return v == 0.0f; }));
    CHECK(k.dw == before);
    for (std::size_t n = 0; n < k.N; ++n)
        for (std::size_t c = 0; c < k.C; ++c) CHECK(static_cast<float>(k.dh[n * k.stride + c]) == 0.0f);
}

TEST_CASE("a label outside the vocabulary is an error that names its position") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    Case k(3, 6, 4);
    k.labels = {0, 6, 1};
    CHECK_THROWS_WITH_AS(k.run_backward(1.0f), "head_loss_backward: label 6 at position 1 is outside the vocabulary of 6", Error);
    CHECK_THROWS_WITH_AS(k.run_forward(), "head_loss: label 6 at position 1 is outside the vocabulary of 6", Error);
}

#endif

}  // namespace tiles_head_test
