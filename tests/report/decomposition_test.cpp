#include <doctest/doctest.h>

#include "lockstep/report/decomposition.hpp"

namespace decomposition_test {

using namespace lockstep::report;

constexpr std::size_t compute = 0, late_peer = 2, update = 3, whole = 6;

StepMetrics timed(double step_ms, double compute_ms) {
    StepMetrics step;
    step.step_ms    = step_ms;
    step.compute_ms = compute_ms;
    return step;
}

TEST_CASE("the first step is left out of the average, unless it is the only one") {
    StepDecomposition decomposition;
    CHECK(decomposition.steps() == 0);
    decomposition.add(timed(1000, 900));
    CHECK(decomposition.steps() == 1);
    CHECK(decomposition.average(whole) == 1000.0);
    decomposition.add(timed(40, 30));
    decomposition.add(timed(60, 34));
    CHECK(decomposition.steps() == 2);
    CHECK(decomposition.average(whole) == 50.0);
    CHECK(decomposition.average(compute) == 32.0);
    CHECK(!decomposition.average(late_peer));
}

TEST_CASE("a part is averaged over the steps that measured it") {
    StepDecomposition decomposition;
    for (int i = 0; i < 5; ++i) {
        StepMetrics step = timed(10, 5);
        if (i == 3) step.update_ms = 2;
        decomposition.add(step);
    }
    CHECK(decomposition.average(update) == 2.0);
}

TEST_CASE("the table shows times and shares, and leaves out what was not measured") {
    StepDecomposition decomposition;
    for (int i = 0; i < 2; ++i) decomposition.add(timed(50, 25));
    CHECK(decomposition.table("#") ==
          "average of 1 step, without the first      ms     share\n"
          "  compute                              25.00    50.0 %  ####################\n"
          "  step                                 50.00   100.0 %\n");
}

}  // namespace decomposition_test
