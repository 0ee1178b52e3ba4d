#include "lockstep/optim/sgd.hpp"

#include <doctest/doctest.h>

#include "lockstep/precision/bfloat16.hpp"
#include "trained.hpp"

namespace sgd_test {

using doctest::Approx;
using lockstep::optim::Sgd;
using lockstep::precision::bfloat16;

TEST_CASE("TRAPS 18: momentum does not carry the learning rate, and its buffer starts as the first gradient") {
    Trained<Sgd> momentum{{.momentum = 0.9}, {0}};
    momentum.update({1}, 0.1);
    CHECK(momentum.values[0] == Approx(-0.1).epsilon(1e-12));
    momentum.update({1}, 0.01);
    CHECK(momentum.values[0] == Approx(-0.119).epsilon(1e-12));

    Trained<Sgd> nesterov{{.momentum = 0.9, .nesterov = true}, {0}};
    nesterov.update({1}, 0.1);
    CHECK(nesterov.values[0] == Approx(-0.19).epsilon(1e-12));
    nesterov.update({1}, 0.1);
    CHECK(nesterov.values[0] == Approx(-0.461).epsilon(1e-12));

    Trained<Sgd> buffer{{.momentum = 0.9}, {0}};
    for (double const expected : {1.0, 1.9, 2.71}) {
        buffer.update({1}, 0.1);
        CHECK(buffer.state[0][0] == Approx(expected).epsilon(1e-12));
    }
}

TEST_CASE("dampening spares the first gradient") {
    Trained<Sgd> sgd{{.momentum = 0.9, .dampening = 0.5}, {0}};
    sgd.update({1}, 0.1);
    CHECK(sgd.state[0][0] == 1.0);
    sgd.update({1}, 0.1);
    CHECK(sgd.state[0][0] == Approx(0.9 + 0.5).epsilon(1e-12));
}

TEST_CASE("SGD computes what PyTorch computes: plain, dampened momentum, Nesterov, each with decay") {
    ReferenceRun const reference;

    auto const plain = reference.run(Sgd{.weight_decay = 0.03});
    CHECK(plain.values[0] == Approx(0.94523253402323271).epsilon(1e-13));
    CHECK(plain.values[1] == Approx(-0.50608016986651583).epsilon(1e-13));
    CHECK(plain.values[2] == Approx(0.24728655805970393).epsilon(1e-13));

    auto const dampened = reference.run(Sgd{.momentum = 0.9, .dampening = 0.2, .weight_decay = 0.03});
    CHECK(dampened.values[0] == Approx(0.7912004932355462).epsilon(1e-13));
    CHECK(dampened.values[1] == Approx(-0.29113828443694478).epsilon(1e-13));
    CHECK(dampened.values[2] == Approx(0.24399623318364705).epsilon(1e-13));
    CHECK(dampened.state[0][1] == Approx(-0.014623630814168672).epsilon(1e-12));

    auto const nesterov = reference.run(Sgd{.momentum = 0.8, .weight_decay = 0.03, .nesterov = true});
    CHECK(nesterov.values[0] == Approx(0.77864019204431856).epsilon(1e-13));
    CHECK(nesterov.values[1] == Approx(-0.40387490690323241).epsilon(1e-13));
    CHECK(nesterov.values[2] == Approx(0.24244087237856135).epsilon(1e-13));
    CHECK(nesterov.state[0][0] == Approx(1.1750995645422937).epsilon(1e-13));
}

TEST_CASE("without momentum the buffer stays untouched") {
    Trained<Sgd, float> sgd{{}, {1, 2}};
    sgd.update({0.5f, -1}, 0.5);
    CHECK(sgd.values == std::vector<float>{0.75f, 2.5f});
    CHECK(sgd.state[0] == std::vector<float>{0, 0});
}

TEST_CASE("TRAPS 24: updates too small for a bf16 weight add up in its master") {
    Trained<Sgd, float> kept{{}, {1}};
    bfloat16            rounded(1.0f);  // the fault: the weight itself is updated
    for (int step = 0; step < 100; ++step) {
        kept.update({1}, 6e-4);
        Trained<Sgd, float> lost{{}, {rounded}};
        lost.update({1}, 6e-4);
        rounded = bfloat16(lost.values[0]);
    }
    CHECK(kept.values[0] == Approx(0.94).epsilon(5e-6));
    CHECK(float(bfloat16(kept.values[0])) == Approx(0.94).epsilon(4e-3));
    CHECK(float(rounded) == 1.0f);
}

}  // namespace sgd_test
