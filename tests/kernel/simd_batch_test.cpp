#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "lockstep/kernel/arch/simd_batch.hpp"

namespace simd_batch_test {

using namespace lockstep::kernel::arch;
using lockstep::precision::bfloat16;
using lockstep::precision::float16;

using Lanes              = std::array<float, width>;
constexpr float infinity = std::numeric_limits<float>::infinity();

Lanes lanes(Batch batch) {
    Lanes result;
    store(result.data(), batch);
    return result;
}

float first_lane(Batch batch) { return lanes(batch)[0]; }

template <class F, class Right>
double worst_relative(float begin, float end, F const& f, Right const& right) {
    double worst = 0;
    for (float x = begin; x < end; x += 0.0137f)
        worst = std::max(worst, std::abs(double{first_lane(f(Batch(x)))} / right(double{x}) - 1.0));
    return worst;
}

TEST_CASE("the exponential is right to the last bits over its whole range") {
    CHECK(worst_relative(
              -86.8f, 88.7f, [](Batch x) { return exp(x); }, [](double x) { return std::exp(x); }) < 2e-7);
    CHECK(first_lane(exp(Batch(0.0f))) == 1.0f);
    CHECK(first_lane(exp(Batch(-infinity))) == 0.0f);
    CHECK(first_lane(exp(Batch(-87.0f))) == 0.0f);
    CHECK(first_lane(exp(Batch(-1e30f))) == 0.0f);
    CHECK(first_lane(exp(Batch(89.0f))) == infinity);
    CHECK(first_lane(exp(Batch(infinity))) == infinity);
    CHECK(std::isnan(first_lane(exp(Batch(std::numeric_limits<float>::quiet_NaN())))));
}

TEST_CASE("the sigmoid saturates and keeps NaN") {
    CHECK(worst_relative(
              -80.0f, 80.0f, [](Batch x) { return sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }) < 3e-7);
    CHECK(first_lane(sigmoid(Batch(-infinity))) == 0.0f);
    CHECK(first_lane(sigmoid(Batch(infinity))) == 1.0f);
    CHECK(std::isnan(first_lane(sigmoid(Batch(std::numeric_limits<float>::quiet_NaN())))));
}

TEST_CASE("16-bit types are widened and rounded with the bits of their scalar conversions") {
    std::size_t wrong = 0;
    for (std::uint32_t u = 0; u < 0x10000u; u += width) {
        std::array<bfloat16, width> b;
        std::array<float16, width>  h;
        for (std::size_t i = 0; i < width; ++i) {
            b[i] = bfloat16::from_bits(static_cast<std::uint16_t>(u + i));
            h[i] = float16::from_bits(static_cast<std::uint16_t>(u + i));
        }
        Lanes const wb = lanes(load(b.data())), wh = lanes(load(h.data()));
        for (std::size_t i = 0; i < width; ++i) {
            wrong += std::bit_cast<std::uint32_t>(wb[i]) != std::bit_cast<std::uint32_t>(static_cast<float>(b[i]));
            wrong += std::isnan(wh[i]) ? !std::isnan(static_cast<float>(h[i])) : wh[i] != static_cast<float>(h[i]);
        }
    }
    CHECK(wrong == 0);

    for (std::uint64_t u = 0; u < std::uint64_t{1} << 32; u += 1009 * width) {  // 1009 is prime: all low halves occur
        Lanes x;
        for (std::size_t i = 0; i < width; ++i) x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(u + i * 1009));
        std::array<bfloat16, width> b;
        std::array<float16, width>  h;
        store(b.data(), load(x.data()));
        store(h.data(), load(x.data()));
        for (std::size_t i = 0; i < width; ++i) wrong += b[i].bits != bfloat16(x[i]).bits || h[i].bits != float16(x[i]).bits ? 1u : 0u;
    }
    CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("partial loads and stores touch their elements only", T, float, bfloat16, float16) {
    for (std::size_t count = 0; count < width; ++count) {
        std::array<T, width + 2> memory;
        memory.fill(T(5.0f));
        store(memory.data() + 1, lane_numbers(), count);
        CHECK(static_cast<float>(memory[0]) == 5.0f);
        for (std::size_t i = 0; i < width; ++i) CHECK(static_cast<float>(memory[i + 1]) == (i < count ? static_cast<float>(i) : 5.0f));
        Lanes const read = lanes(load(memory.data() + 1, count, -3.0f));
        for (std::size_t i = 0; i < width; ++i) CHECK(read[i] == (i < count ? static_cast<float>(i) : -3.0f));
    }
}

TEST_CASE("horizontal sums are trees, horizontal maxima keep NaN") {
    Lanes x = lanes(lane_numbers());
    CHECK(horizontal_sum(load(x.data())) == static_cast<float>(width * (width - 1) / 2));
    CHECK(horizontal_max(load(x.data())) == static_cast<float>(width - 1));
    x.fill(0.0f);
    x[0]         = 1e8f;
    x[width / 2] = -1e8f;
    x[1]         = 1.0f;
    CHECK(horizontal_sum(load(x.data())) == 1.0f);
    std::size_t different = 0;
    for (std::uint32_t seed = 1; seed < 1000; ++seed) {
        for (std::size_t i = 0; i < width; ++i) x[i] = static_cast<float>((seed + i) * 2654435761u % 1000003u) / static_cast<float>(1 + i);
        Lanes tree = x;
        for (std::size_t half = width / 2; half > 0; half /= 2)
            for (std::size_t i = 0; i < half; ++i) tree[i] += tree[i + half];
        different += horizontal_sum(load(x.data())) != tree[0];
    }
    CHECK(different == 0);
    for (std::size_t i = 0; i < width; ++i) {
        x.fill(1.0f);
        x[i] = std::numeric_limits<float>::quiet_NaN();
        CHECK(std::isnan(horizontal_max(load(x.data()))));
    }
    CHECK(std::isnan(first_lane(larger(Batch(std::numeric_limits<float>::quiet_NaN()), Batch(1.0f)))));
    CHECK(std::isnan(first_lane(larger(Batch(1.0f), Batch(std::numeric_limits<float>::quiet_NaN())))));
    CHECK(first_lane(larger(Batch(1.0f), Batch(2.0f))) == 2.0f);
}

}  // namespace simd_batch_test
