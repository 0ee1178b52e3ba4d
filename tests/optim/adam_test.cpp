#include "lockstep/optim/adam.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "lockstep/optim/clipping.hpp"
#include "lockstep/optim/loss_scale.hpp"
#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/precision/float16.hpp"
#include "trained.hpp"

namespace adam_test {

using doctest::Approx;
using namespace lockstep::optim;

TEST_CASE("Adam computes what PyTorch computes, decay coupled") {
    auto const adam = ReferenceRun{}.run(Adam{.beta1 = 0.8, .beta2 = 0.97, .epsilon = 1e-6, .weight_decay = 0.03});
    CHECK(adam.values[0] == Approx(0.7678392870120101).epsilon(1e-13));
    CHECK(adam.values[1] == Approx(-0.39186140045561785).epsilon(1e-13));
    CHECK(adam.values[2] == Approx(-0.04974539870280438).epsilon(1e-12));
    CHECK(adam.state[0][1] == Approx(0.06615458886249143).epsilon(1e-13));
    CHECK(adam.state[1][2] == Approx(3.0618250556472026e-06).epsilon(1e-12));
}

TEST_CASE("TRAPS 17: a skipped step does not count in the bias correction") {
    Trained<Adam>    adam{{.beta1 = 0.9, .beta2 = 0.999}, {1}};
    DynamicLossScale loss_scale;
    for (double const gradient : {1.0, std::numeric_limits<double>::infinity(), 0.5}) {
        double const raw      = gradient * loss_scale.scale();
        auto const   clipping = clip(std::abs(raw), loss_scale.scale(), 0);
        if (clipping.gradient_scale) adam.update({raw}, 0.1, *clipping.gradient_scale);
        loss_scale.update(clipping.gradient_scale.has_value());
    }
    CHECK(adam.values[0] == Approx(0.8067820383).epsilon(1e-9));
    CHECK(adam.steps == 2);
    CHECK(loss_scale.scale() == 32768);
}

TEST_CASE_TEMPLATE("TRAPS 25: a gradient of exactly zero leaves weights unchanged, epsilon does not vanish with the compute type", Weight,
                   lockstep::precision::bfloat16, lockstep::precision::float16) {
    Trained<Adam, float> adam{{}, {Weight(1.0f), Weight(-2.0f), Weight(0.5f)}};
    for (int step = 0; step < 3; ++step) adam.update({0, 0, 0}, 0.1, 1.0 / 65536);
    CHECK(adam.values == std::vector<float>{1, -2, 0.5f});
    CHECK(Weight(adam.values[1]).bits == Weight(-2.0f).bits);
}

TEST_CASE("the gradient scale goes into both moments") {
    Trained<Adam> raw{{}, {1, -1}}, scaled{{}, {1, -1}};
    for (int step = 0; step < 3; ++step) {
        raw.update({0.25, -0.5}, 0.1);
        scaled.update({0.25 * 1024, -0.5 * 1024}, 0.1, 1.0 / 1024);
    }
    CHECK(raw.values == scaled.values);
    CHECK(raw.state == scaled.state);
}

}  // namespace adam_test
