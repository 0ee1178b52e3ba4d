#include <doctest/doctest.h>

#include "lockstep/observe/timeline.hpp"

namespace step_clock_test {

using namespace lockstep::observe;

struct SetClock {
    Nanoseconds time = 0;

    Clock clock() const noexcept {
        return {[](void const* source) noexcept { return static_cast<SetClock const*>(source)->time; }, this};
    }
};

TEST_CASE("nested spans: every nanosecond is booked once, for the innermost one") {
    SetClock          hand;
    Timeline          own(hand.clock());
    UseTimeline const use(own);
    StepClock         clock;
    BookIn const      book(clock);
    hand.time = 1000;
    clock.restart(now());
    hand.time = 1010;  // other: 10
    {
        Span const backward(Event::backward);
        hand.time = 1110;  // compute: 100
        {
            Span const submit(Event::submit);
            hand.time = 1115;  // gradients: 5
            {
                Span const wait(Event::gather_wait);
                hand.time = 1145;  // parameters: 30
            }
            hand.time = 1150;  // gradients: 5
        }
        hand.time = 1200;  // compute: 50
    }
    {
        Span const update(Event::update);
        hand.time = 1230;  // update: 30
    }
    {
        Span const wait(Event::batch_wait);
        hand.time = 1232;  // data: 2
    }
    hand.time             = 1240;  // other: 8
    StepTimes const times = clock.times(now());
    CHECK(times[Activity::compute] == 150);
    CHECK(times[Activity::gradients_wait] == 10);
    CHECK(times[Activity::parameters_wait] == 30);
    CHECK(times[Activity::update] == 30);
    CHECK(times[Activity::data] == 2);
    CHECK(times[Activity::other] == 18);
    CHECK(times[Activity::late_peer] == 0);
    CHECK(times.total() == 240);

    Nanoseconds sum = 0;  // the changes tell the same
    auto const  all = clock.changes();
    for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i].activity == Activity::compute) sum += (i + 1 < all.size() ? all[i + 1].at : 1240) - all[i].at;
    CHECK(sum == 150);
}

TEST_CASE("more changes than the clock keeps do not touch its sums") {
    StepClock clock;
    clock.restart(0);
    Nanoseconds now = 0;
    for (std::size_t i = 0; i < 2 * StepClock::most_changes; ++i) clock.enter(i % 2 == 0 ? Activity::compute : Activity::update, now += 3);
    StepTimes const times = clock.times(now += 3);
    CHECK(times.total() == now);
    CHECK(times[Activity::compute] == 3 * static_cast<Nanoseconds>(StepClock::most_changes));
    CHECK(clock.changes().size() == StepClock::most_changes);
    clock.restart(now);
    CHECK(clock.changes().size() == 1);
    CHECK(clock.times(now + 5).total() == 5);
}

TEST_CASE("spans of other threads, and of threads without a step, are not booked") {
    SetClock          hand;
    Timeline          own(hand.clock());
    UseTimeline const use(own);
    StepClock         clock;
    clock.restart(0);
    {
        BookIn const book(clock);
        CHECK(track().clock == &clock);
    }
    {
        Span const span(Event::backward);
        hand.time = 50;
    }
    CHECK(clock.times(60)[Activity::compute] == 0);
}

}  // namespace step_clock_test
