#include "lockstep/optim/loss_scale.hpp"

#include <doctest/doctest.h>

#include <iterator>
#include <type_traits>

namespace loss_scale_test {

using namespace lockstep;
using optim::DynamicLossScale;
using optim::NoLossScale;

TEST_CASE("TRAPS 6: the scale grows after clean steps and backs off on each overflow") {
    DynamicLossScale scale({.initial = 65536, .growth = 2, .backoff = 0.5, .interval = 3});
    bool const       overflow[] = {0, 0, 1, 0, 0, 0, 0, 1, 1, 0};
    double const     expected[] = {65536, 65536, 32768, 32768, 32768, 65536, 65536, 32768, 16384, 16384};
    for (std::size_t step = 0; step < std::size(overflow); ++step) {
        scale.update(!overflow[step]);
        CHECK(scale.scale() == expected[step]);
    }
}

TEST_CASE("the defaults are 65536, doubled after 2000 clean steps") {
    DynamicLossScale scale;
    for (int step = 0; step < 1999; ++step) scale.update(true);
    CHECK(scale.scale() == 65536);
    scale.update(true);
    CHECK(scale.scale() == 131072);
    for (int step = 0; step < 1999; ++step) scale.update(true);
    scale.update(false);  // the count of clean steps starts again
    scale.update(true);
    CHECK(scale.scale() == 65536);
}

TEST_CASE("TRAPS 28: an overflow at scale 2 gives 1, the same on every rank that is told the verdict") {
    DynamicLossScale ranks[4]{DynamicLossScale({.initial = 2}), DynamicLossScale({.initial = 2}), DynamicLossScale({.initial = 2}),
                              DynamicLossScale({.initial = 2})};
    for (DynamicLossScale& rank : ranks) rank.update(false);
    for (DynamicLossScale& rank : ranks) CHECK(rank.scale() == 1);
}

TEST_CASE("the scale and its inverse stay finite and above zero however long overflows or clean steps go on") {
    DynamicLossScale scale({.interval = 1});
    for (int step = 0; step < 500; ++step) scale.update(true);
    CHECK(scale.scale() == 0x1p126);
    for (int step = 0; step < 500; ++step) scale.update(false);
    CHECK(scale.scale() == 0x1p-126);
}

TEST_CASE("a restored scale goes on where it was saved") {
    DynamicLossScale saved({.interval = 3});
    saved.update(false);
    saved.update(true);
    saved.update(true);
    DynamicLossScale restored({.interval = 3});
    restored.restore(saved.state());
    CHECK(restored.state() == saved.state());
    restored.update(true);
    CHECK(restored.scale() == 65536);
}

TEST_CASE("only a policy with dynamic scaling gets a scale other than 1") {
    static_assert(std::is_same_v<optim::LossScale<precision::Fp16>, DynamicLossScale>);
    static_assert(std::is_same_v<optim::LossScale<precision::Bf16>, NoLossScale>);
    static_assert(std::is_same_v<optim::LossScale<precision::Fp32>, NoLossScale>);
    NoLossScale scale;
    scale.update(false);
    CHECK(scale.scale() == 1);
}

}  // namespace loss_scale_test
