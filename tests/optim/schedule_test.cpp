#include "lockstep/optim/schedule.hpp"

#include <doctest/doctest.h>

#include <iterator>

namespace schedule_test {

using doctest::Approx;
using lockstep::optim::Schedule;
using lockstep::optim::Shape;

TEST_CASE("TRAPS 22: warm-up and cosine, to the end and beyond") {
    Schedule const schedule{.shape = Shape::cosine, .warmup = 4, .total = 12, .min_ratio = 0.1};
    double const   expected[] = {.25, .5, .75, 1, 1, .965746, .868198, .722208, .55, .377792, .231802, .134254, .1, .1, .1};
    for (unsigned version = 0; version < std::size(expected); ++version)
        CHECK(schedule.multiplier(version) == Approx(expected[version]).epsilon(1e-6));
    CHECK(schedule.multiplier(3) == 1);
    CHECK(schedule.multiplier(12) == 0.1);
}

TEST_CASE("a constant schedule warms up and stays") {
    Schedule const schedule{.learning_rate = 0.3, .warmup = 2};
    CHECK(schedule(0) == Approx(0.15));
    CHECK(schedule(1) == 0.3);
    CHECK(schedule(1'000'000) == 0.3);
    CHECK(Schedule{.learning_rate = 0.3}(0) == 0.3);
}

TEST_CASE("WSD is flat until the last part, then falls in a line to the least ratio") {
    Schedule const schedule{.shape = Shape::wsd, .warmup = 10, .total = 100, .min_ratio = 0.2, .decay_fraction = 0.4};
    CHECK(schedule.multiplier(0) == Approx(0.1));
    for (unsigned version = 9; version <= 60; ++version) CHECK(schedule.multiplier(version) == 1);
    CHECK(schedule.multiplier(70) == Approx(0.8));
    CHECK(schedule.multiplier(80) == Approx(0.6));
    CHECK(schedule.multiplier(99) == Approx(0.22));
    CHECK(schedule.multiplier(100) == 0.2);
}

TEST_CASE("a warm-up as long as the run leaves no room for a fall") {
    for (Shape const shape : {Shape::cosine, Shape::wsd}) {
        Schedule const schedule{.shape = shape, .warmup = 5, .total = 5, .min_ratio = 0.1};
        CHECK(schedule.multiplier(4) == 1);
        CHECK(schedule.multiplier(5) == 0.1);
    }
}

}  // namespace schedule_test
