#include "lockstep/optim/adamw.hpp"

#include <doctest/doctest.h>

#include "trained.hpp"

namespace adamw_test {

using doctest::Approx;
using lockstep::optim::AdamW;

TEST_CASE_TEMPLATE("TRAPS 4: AdamW keeps epsilon outside of the root, corrects the bias and decays apart", T, double, float) {
    Trained<AdamW, T> adamw{{.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-3, .weight_decay = 0.1}, {1}};
    double const      close      = std::is_same_v<T, double> ? 1e-9 : 1e-6;
    double const      expected[] = {0.94, 0.953009241, 0.951266345};
    T const           gradient[] = {T(1e-3), T(-2e-3), T(5e-4)};
    for (int step = 0; step < 3; ++step) {
        adamw.update({gradient[step]}, 0.1);
        CHECK(adamw.values[0] == Approx(expected[step]).epsilon(close));
    }
}

TEST_CASE("TRAPS 5: AdamW decays before it steps") {
    Trained<AdamW> adamw{{.epsilon = 1e-300, .weight_decay = 0.1}, {1}};  // the first step is then exactly the learning rate
    adamw.update({0.7}, 0.1);
    CHECK(adamw.values[0] == Approx(0.89).epsilon(1e-12));
}

TEST_CASE("TRAPS 19: matrices decay, norm weights and biases do not") {
    Trained<AdamW> matrix{{.weight_decay = 0.1}, {1}};
    Trained<AdamW> bias{{.weight_decay = 0.1}, {1}, a_parameter(1, 1)};
    matrix.update({0}, 0.1);
    bias.update({0}, 0.1);
    CHECK(matrix.values[0] == Approx(0.99).epsilon(1e-12));
    CHECK(bias.values[0] == 1.0);
}

TEST_CASE("AdamW computes what PyTorch computes") {
    auto const adamw = ReferenceRun{}.run(AdamW{.beta1 = 0.8, .beta2 = 0.97, .epsilon = 1e-6, .weight_decay = 0.2});
    CHECK(adamw.values[0] == Approx(0.71576816252749986).epsilon(1e-13));
    CHECK(adamw.values[1] == Approx(-0.36599888824137339).epsilon(1e-13));
    CHECK(adamw.values[2] == Approx(0.26476066507032808).epsilon(1e-13));
    CHECK(adamw.state[0][0] == Approx(0.21649599999999994).epsilon(1e-13));
    CHECK(adamw.state[1][1] == Approx(0.06390721249200004).epsilon(1e-13));
}

TEST_CASE("the bias correction holds after a million steps") {
    Trained<AdamW, float> adamw{{.weight_decay = 0}, {1}};
    adamw.state = {{0.5f}, {0.25f}};
    adamw.steps = 1'000'000;
    adamw.update({0.5f}, 0.1);  // moments at rest: a full step
    CHECK(adamw.values[0] == Approx(0.9).epsilon(1e-6));
}

}  // namespace adamw_test
