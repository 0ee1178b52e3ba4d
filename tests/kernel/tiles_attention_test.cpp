#include <doctest/doctest.h>

#include "lockstep/kernel/arch/cpu_features.hpp"

#if defined(__x86_64__) && defined(__GNUC__)

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "attention_reference.hpp"
#include "lockstep/kernel/arch/scalar_attention.hpp"
#include "lockstep/kernel/arch/tiles_attention.hpp"
#include "lockstep/kernel/arch/tiles_attention_backward.hpp"
#include "lockstep/kernel/attention.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "tile_unit.hpp"

namespace tiles_attention_test {

using namespace lockstep;
using namespace lockstep::kernel;
using kernel::test::Numbers;
using precision::bfloat16;

AttentionDropout const none{};
AttentionDropout const third{.probability = 0.3f, .key = {.seed = 5, .purpose = 9, .step = 3}, .first_sample = 21};

constexpr double canary = -77;

/// Values that are exact in bfloat16, so that the reference sees the same input.
Numbers random_numbers(std::size_t count, std::uint32_t purpose) {
    Numbers x(count);
    for (std::size_t i = 0; i < count; ++i)
        x[i] = static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(random_normal({11, purpose, 0}, i)))));
    return x;
}

/// A matrix between two guards, whose rows lie `gap` elements further apart than they are long.
template <class T>
struct Matrix {
    static constexpr std::size_t guard = 64;
    Matrix(std::size_t rows, std::size_t columns, std::size_t gap)
        : stride(columns + gap),
          data(rows * stride + 2 * guard, T(static_cast<float>(canary))),
          view(data.data() + guard, {rows, columns}, {stride, 1}) {}
    Matrix(std::size_t rows, std::size_t columns, std::size_t gap, Numbers const& numbers) : Matrix(rows, columns, gap) {
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < columns; ++j) view(i, j) = T(static_cast<float>(numbers[i * columns + j]));
    }
    bool surroundings_untouched() const {
        for (std::size_t i = 0; i < data.size(); ++i) {
            bool const inside = i >= guard && i < data.size() - guard && (i - guard) % stride < view.extent(1);
            if (!inside && static_cast<double>(static_cast<float>(data[i])) != canary) return false;
        }
        return true;
    }

    std::size_t        stride;
    std::vector<T>     data;
    tensor::View<T, 2> view;
};

struct Run {
    Run(AttentionShape shape, Numbers const& x, Numbers const& dy, std::size_t gap)
        : s(shape),
          qkv(s.rows(), s.qkv_columns(), gap, x),
          dout(s.rows(), s.out_columns(), 2 * gap, dy),
          out(s.rows(), s.out_columns(), gap),
          dqkv(s.rows(), s.qkv_columns(), 3 * gap),
          lse(s.batch * s.heads, s.sequence, gap) {}
    template <class Arch>
    Run(Arch tag, AttentionShape shape, Numbers const& x, Numbers const& dy, AttentionDropout const& dropout, std::size_t gap = 0)
        : Run(shape, x, dy, gap) {
        forward(tag, dropout);
        backward(tag, dropout);
    }
    template <class Arch>
    void forward(Arch tag, AttentionDropout const& dropout) {
        tensor::View<bfloat16 const, 2> const input = qkv.view;
        attention_forward(tag, s, input, out.view, lse.view, dropout);
    }
    template <class Arch>
    void backward(Arch tag, AttentionDropout const& dropout) {
        tensor::View<bfloat16 const, 2> const input = qkv.view;
        attention_backward(tag, s, input, out.view, dout.view, lse.view, dqkv.view, dropout);
    }
    bool surroundings_untouched() const {
        return out.surroundings_untouched() && lse.surroundings_untouched() && dqkv.surroundings_untouched();
    }

    AttentionShape   s;
    Matrix<bfloat16> qkv, dout, out, dqkv;
    Matrix<float>    lse;
};

struct Error {
    double largest;  // in units of the largest reference value (at least 1); NaN counts as infinite
    double mean;     // root of the mean square, in units of that of the reference
};

template <class T, class Right>
Error error(Matrix<T> const& found, Right const& right) {
    double worst = 0, size = 1, off2 = 0, size2 = 0;
    for (std::size_t i = 0; i < found.view.extent(0); ++i)
        for (std::size_t j = 0; j < found.view.extent(1); ++j) {
            double const wanted = right(i, j);
            double const off    = std::abs(static_cast<double>(static_cast<float>(found.view(i, j))) - wanted);
            worst               = off <= worst ? worst : std::isnan(off) ? INFINITY : off;
            size                = std::max(size, std::abs(wanted));
            off2 += off * off;
            size2 += wanted * wanted;
        }
    return {worst / size, off2 == 0 ? 0 : std::sqrt(off2 / size2)};
}
template <class T>
Error error(Matrix<T> const& found, Numbers const& right) {
    return error(found, [&](std::size_t i, std::size_t j) { return right[i * found.view.extent(1) + j]; });
}
template <class T>
Error error(Matrix<T> const& found, Matrix<T> const& right) {
    return error(found, [&](std::size_t i, std::size_t j) { return static_cast<double>(static_cast<float>(right.view(i, j))); });
}

template <class T>
bool same_bits(Matrix<T> const& a, Matrix<T> const& b) {
    return a.data.size() == b.data.size() && std::memcmp(a.data.data(), b.data.data(), a.data.size() * sizeof(T)) == 0;
}

void compare_with_reference(AttentionShape s, AttentionDropout const& dropout, std::size_t gap) {
    CAPTURE(s.sequence);
    CAPTURE(s.head_size);
    CAPTURE(s.heads);
    CAPTURE(dropout.probability);
    auto const x     = random_numbers(s.rows() * s.qkv_columns(), 1);
    auto const dy    = random_numbers(s.rows() * s.out_columns(), 2);
    auto const right = kernel::test::reference_attention(s, x, dy, dropout);
    Run const  run(arch::tiles{}, s, x, dy, dropout, gap);
    CHECK(error(run.out, right.out).largest < 8e-3);
    CHECK(error(run.out, right.out).mean < 4e-3);
    CHECK(error(run.lse, right.lse).largest < 1e-5);
    CHECK(error(run.dqkv, right.dqkv).largest < 8e-3);
    CHECK(error(run.dqkv, right.dqkv).mean < 5e-3);
    CHECK(run.surroundings_untouched());
}

Numbers part_of(Numbers const& numbers, std::size_t parts, std::size_t part) {
    auto const n = static_cast<std::ptrdiff_t>(numbers.size() / parts), at = static_cast<std::ptrdiff_t>(part) * n;
    return {numbers.begin() + at, numbers.begin() + at + n};
}

TEST_CASE("attention on tiles agrees with dense matrices in double for any length and head size") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    for (std::size_t T : {1u, 15u, 16u, 17u, 31u, 33u, 37u, 64u, 65u, 100u, 200u})
        for (std::size_t D : {8u, 15u, 20u, 32u, 64u, 80u, 128u}) {
            compare_with_reference({1, T, 2, 2, D}, none, 0);
            compare_with_reference({1, T, 2, 1, D}, third, 5);
        }
}

TEST_CASE("attention on tiles agrees with dense matrices where tasks and spans end within a sequence") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    compare_with_reference({1, 600, 1, 1, 32}, none, 0);
    compare_with_reference({1, 1000, 1, 1, 17}, none, 1);
    compare_with_reference({2, 321, 2, 1, 16}, third, 3);
    compare_with_reference({3, 70, 6, 2, 24}, third, 0);
}

TEST_CASE("attention on tiles agrees with the plain loops") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    AttentionShape const s{2, 131, 4, 2, 48};
    auto const           x  = random_numbers(s.rows() * s.qkv_columns(), 1);
    auto const           dy = random_numbers(s.rows() * s.out_columns(), 2);
    for (AttentionDropout const& dropout : {none, third}) {
        Run const plain(arch::scalar{}, s, x, dy, dropout), run(arch::tiles{}, s, x, dy, dropout);
        CHECK(error(run.out, plain.out).largest < 8e-3);
        CHECK(error(run.lse, plain.lse).largest < 1e-5);
        CHECK(error(run.dqkv, plain.dqkv).largest < 8e-3);
    }
}

TEST_CASE("attention on tiles gives the same bits on any number of threads") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    AttentionShape const s{1, 600, 4, 2, 24};
    auto const           x  = random_numbers(s.rows() * s.qkv_columns(), 1);
    auto const           dy = random_numbers(s.rows() * s.out_columns(), 2);
    for (AttentionDropout const& dropout : {none, third}) {
        Run const alone = runtime::Threads(1).run([&] { return Run(arch::tiles{}, s, x, dy, dropout); });
        for (int count : {2, 3}) {
            Run const together = runtime::Threads(count).run([&] { return Run(arch::tiles{}, s, x, dy, dropout); });
            CHECK(same_bits(alone.out, together.out));
            CHECK(same_bits(alone.lse, together.lse));
            CHECK(same_bits(alone.dqkv, together.dqkv));
        }
    }
}

TEST_CASE("on tiles a sequence gets the same bits wherever it stands in a batch") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    AttentionShape const s{5, 300, 2, 1, 20}, one{1, 300, 2, 1, 20};
    auto const           x  = random_numbers(s.rows() * s.qkv_columns(), 1);
    auto const           dy = random_numbers(s.rows() * s.out_columns(), 2);
    Run const            all(arch::tiles{}, s, x, dy, third);
    for (std::size_t b = 0; b < s.batch; ++b) {
        AttentionDropout dropout = third;
        dropout.first_sample += b;
        Run const  single(arch::tiles{}, one, part_of(x, s.batch, b), part_of(dy, s.batch, b), dropout);
        auto const same = [&](auto const& whole, auto const& part) {
            std::size_t const rows = part.view.extent(0);
            for (std::size_t i = 0; i < rows; ++i)
                if (std::memcmp(&whole.view(b * rows + i, 0), &part.view(i, 0), part.view.extent(1) * sizeof(part.data[0])) != 0)
                    return false;
            return true;
        };
        CHECK(same(all.out, single.out));
        CHECK(same(all.lse, single.lse));
        CHECK(same(all.dqkv, single.dqkv));
    }
}

TEST_CASE("on tiles a token changes nothing before it") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    AttentionShape const s{1, 150, 2, 2, 16};
    auto const           x  = random_numbers(s.rows() * s.qkv_columns(), 1);
    auto const           dy = random_numbers(s.rows() * s.out_columns(), 2);
    Run const            before(arch::tiles{}, s, x, dy, third);
    for (std::size_t changed : {1u, 31u, 40u, 64u, 149u}) {
        Numbers other = x;
        for (std::size_t i = changed * s.qkv_columns(); i < (changed + 1) * s.qkv_columns(); ++i) other[i] = 3 - other[i];
        Run const         after(arch::tiles{}, s, other, dy, third);
        std::size_t const part = changed * s.out_columns();
        CHECK(std::memcmp(&before.out.view(0, 0), &after.out.view(0, 0), part * sizeof(bfloat16)) == 0);
        CHECK(std::memcmp(&before.out.view(changed, 0), &after.out.view(changed, 0), s.out_columns() * sizeof(bfloat16)) != 0);
    }
}

TEST_CASE("on tiles logits that grow to 1e4 and more leave the softmax finite and right") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    AttentionShape const s{1, 250, 2, 1, 16};
    auto const           dy = random_numbers(s.rows() * s.out_columns(), 2);
    // Keys that grow along the sequence make later scores exceed all before them again and again.
    for (double growth : {0.0, 0.02, 2.0}) {
        CAPTURE(growth);
        auto x = random_numbers(s.rows() * s.qkv_columns(), 1);
        for (std::size_t t = 0; t < s.rows(); ++t)
            for (std::size_t j = 0; j < (s.heads + s.kv_heads) * s.head_size; ++j) {
                double&      at     = x[t * s.qkv_columns() + j];
                double const factor = growth == 0 ? 128 : j < s.heads * s.head_size ? 8 : growth * static_cast<double>(t);
                at                  = static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(at * factor))));
            }
        auto const right = kernel::test::reference_attention(s, x, dy, none);
        CHECK(*std::ranges::max_element(right.lse) > (growth == 0.02 ? 50 : 2e3));
        Run run(arch::tiles{}, s, x, dy, none);
        CHECK(error(run.out, right.out).largest < 8e-3);
        CHECK(error(run.lse, right.lse).largest < 1e-6);
        // The rounding of out decides what is left of gradients that cancel: both get the same one.
        Run plain(s, x, dy, 0);
        plain.forward(arch::scalar{}, none);
        plain.backward(arch::scalar{}, none);
        run.out = plain.out, run.lse = plain.lse;
        run.out.view = {run.out.data.data() + Matrix<bfloat16>::guard, {s.rows(), s.out_columns()}};
        run.lse.view = {run.lse.data.data() + Matrix<float>::guard, {s.batch * s.heads, s.sequence}};
        run.backward(arch::tiles{}, none);
        CHECK(error(run.dqkv, plain.dqkv).largest < 8e-3);
    }
}

TEST_CASE("on tiles NaN and infinity in one sequence stay in it") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    AttentionShape const s{2, 70, 2, 2, 32};
    auto                 x  = random_numbers(s.rows() * s.qkv_columns(), 1);
    auto const           dy = random_numbers(s.rows() * s.out_columns(), 2);
    x[40 * s.qkv_columns()] = NAN;  // query 40, head 0
    Run const run(arch::tiles{}, s, x, dy, none);
    CHECK(std::isnan(static_cast<float>(run.out.view(40, 0))));
    CHECK(std::isnan(run.lse.view(0, 40)));
    CHECK(std::isnan(static_cast<float>(run.dqkv.view(40, 0))));
    std::size_t bad = 0;
    for (std::size_t i = 0; i < s.rows(); ++i)
        for (std::size_t j = 0; j < s.out_columns(); ++j)
            bad += (i != 40 || j >= s.head_size) && !std::isfinite(static_cast<float>(run.out.view(i, j)));
    for (std::size_t i = s.sequence; i < s.rows(); ++i)
        for (std::size_t j = 0; j < s.qkv_columns(); ++j) bad += !std::isfinite(static_cast<float>(run.dqkv.view(i, j)));
    CHECK(bad == 0);
}

TEST_CASE("on tiles dropout drops the weights that its key names, forward and backward") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    // Equal scores, one-hot values and gradients: out(t, k) and dv(k, t) are factor(t, k) / (t + 1).
    for (std::size_t T : {50u, 64u, 101u}) {
        for (std::uint64_t first : {std::uint64_t{21}, (std::uint64_t{1} << 40) + 3}) {
            AttentionDropout dropout = third;
            dropout.first_sample     = first;
            AttentionShape const s{2, T, 2, 2, T};
            Numbers              x(s.rows() * s.qkv_columns()), dy(s.rows() * s.out_columns());
            for (std::size_t n = 0; n < s.rows(); ++n)
                for (std::size_t h = 0; h < s.heads; ++h) {
                    x[n * s.qkv_columns() + s.value_column(h) + n % T] = 1;
                    dy[n * s.out_columns() + h * T + n % T]            = 1;
                }
            Run const   run(arch::tiles{}, s, x, dy, dropout);
            std::size_t wrong = 0;
            for (std::size_t b = 0; b < s.batch; ++b)
                for (std::size_t h = 0; h < s.heads; ++h)
                    for (std::size_t t = 0; t < T; ++t)
                        for (std::size_t k = 0; k < T; ++k) {
                            double const right =
                                k > t ? 0 : kernel::test::reference_factor(s, dropout, b, h, t, k) / static_cast<double>(t + 1);
                            double const out  = static_cast<double>(static_cast<float>(run.out.view(b * T + t, h * T + k)));
                            double const dv   = static_cast<double>(static_cast<float>(run.dqkv.view(b * T + k, s.value_column(h) + t)));
                            bool const   good = std::abs(out - right) <= 8e-3 * right && std::abs(dv - right) <= 8e-3 * right;
                            wrong += !good;
                        }
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("heads above 128 leave the tiles") {
    ::test::TileUnit const tiles;
    if (!tiles) return;
    AttentionShape const s{1, 40, 2, 1, 129};
    auto const           x  = random_numbers(s.rows() * s.qkv_columns(), 1);
    auto const           dy = random_numbers(s.rows() * s.out_columns(), 2);
    Run const            in_vectors(arch::simd{}, s, x, dy, none);
    Run                  chosen(s, x, dy, 0);

    tensor::View<bfloat16 const, 2> const input = chosen.qkv.view;
    attention_forward(s, input, chosen.out.view, chosen.lse.view);
    attention_backward(s, input, chosen.out.view, chosen.dout.view, chosen.lse.view, chosen.dqkv.view);
    auto const bits = [](bfloat16 value) { return value.bits; };
    CHECK(std::ranges::equal(chosen.out.data, in_vectors.out.data, {}, bits, bits));
    CHECK(std::ranges::equal(chosen.dqkv.data, in_vectors.dqkv.data, {}, bits, bits));
    CHECK(chosen.lse.data == in_vectors.lse.data);
}

#else

TEST_CASE("attention on tiles needs an x86-64 processor") { CHECK_FALSE(lockstep::kernel::arch::has_amx()); }

#endif

}  // namespace tiles_attention_test
