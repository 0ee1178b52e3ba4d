#include "lockstep/optim/clipping.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "lockstep/core/exact_sum.hpp"
#include "lockstep/optim/sgd.hpp"
#include "trained.hpp"

namespace clipping_test {

using doctest::Approx;
using lockstep::ExactSum;
using lockstep::optim::clip;
using lockstep::optim::clip_coefficient;
using lockstep::optim::Sgd;

TEST_CASE("TRAPS 7: gradients are unscaled before they are clipped, and the norm is reported before clipping") {
    std::vector<double> const raw{3 * 1024.0, 4 * 1024.0};
    auto const                clipping = clip(std::hypot(raw[0], raw[1]), 1024, 1);
    CHECK(clipping.norm == 5);
    Trained<Sgd> sgd{{}, {0, 0}};
    sgd.update(raw, 1, clipping.gradient_scale.value());
    CHECK(-sgd.values[0] == Approx(0.6).epsilon(1e-6));
    CHECK(-sgd.values[1] == Approx(0.8).epsilon(1e-6));
}

TEST_CASE("TRAPS 8: a norm counts sharded elements once and replicated ones once") {
    ExactSum rank0, rank1;  // each rank adds what it owns; the replicated element belongs to one of them
    for (double g : {3.0, 0.0, 12.0}) rank0 += g * g;
    for (double g : {0.0, 4.0}) rank1 += g * g;
    rank0 += rank1;
    CHECK(clip(std::sqrt(rank0.value()), 1, 0).norm == 13);
}

TEST_CASE("TRAPS 9: a norm that is not finite never passes") {
    double const nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
    for (double const max_norm : {0.0, 1.0})
        for (double const bad : {nan, -nan, inf}) {
            CHECK(!clip_coefficient(bad, max_norm).has_value());
            CHECK(!clip(bad, 65536, max_norm).gradient_scale.has_value());
            CHECK(!std::isfinite(clip(bad, 65536, max_norm).norm));
        }
}

TEST_CASE("small gradients pass as they are, large ones come to the limit, a limit of zero is off") {
    CHECK(clip_coefficient(0.5, 1) == 1.0);
    CHECK(clip_coefficient(0, 1) == 1.0);
    CHECK(clip_coefficient(4, 1).value() == Approx(1 / 4.000001).epsilon(1e-12));
    CHECK(clip_coefficient(1e30, 0) == 1.0);
    CHECK(clip(1e30, 2, 0).gradient_scale == 0.5);
}

}  // namespace clipping_test
