#include "lockstep/train/arrivals.hpp"

#include <doctest/doctest.h>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/environment.hpp"

namespace arrivals_test {

using namespace lockstep;
using observe::Activity;
using observe::Event;
using observe::Nanoseconds;
using observe::Span;

comm::Environment& environment() {
    static comm::Environment instance;
    return instance;
}
comm::Communicator const& world() { return environment().world(); }

/// A rank on a clock that the test sets: its zero is `shift` away from the one that all share.
struct VirtualRank {
    struct Hand {
        Nanoseconds time = 0, shift = 0;
    };
    Hand hand{0, 1'000'000 * world().rank()};

    observe::Timeline    timeline{{[](void const* source) noexcept {
                                    auto const* const set = static_cast<Hand const*>(source);
                                    return set->time + set->shift;
                                },
                                   &hand}};
    observe::UseTimeline use{timeline};
    observe::StepClock   clock;
    observe::BookIn      book{clock};
    std::size_t          rank     = static_cast<std::size_t>(world().rank());
    std::size_t          ranks    = static_cast<std::size_t>(world().size());
    std::size_t          together = ranks;  // that gather weights
    Arrivals             arrivals{3, rank, ranks, together};

    explicit VirtualRank(std::size_t group) : together(group) { relate(); }

    VirtualRank() { relate(); }

    void relate() { timeline.relate({.at = 0, .offset = -hand.shift, .drift = 0, .error = 0}); }

    void at(Nanoseconds time) { hand.time = time; }
    bool slow() const { return rank + 1 == ranks; }

    void begin(Nanoseconds time) {
        at(time);
        clock.restart(observe::now());
        arrivals.restart(observe::now());
    }
    StepResult end(Nanoseconds time) {
        StepResult result;
        arrivals.start(world(), clock).wait();
        at(time);
        result.times = clock.times(observe::now());
        arrivals.finish(result, clock, observe::now());
        return result;
    }
};

/// A step in which the last rank's backward of unit 2 takes 1050 instead of 50: a bucket is on its way while unit 1 is computed. The
/// collective needs 200 once all have come.
StepResult one_step(VirtualRank& r, Nanoseconds start, Nanoseconds slower) {
    Nanoseconds const mine = r.slow() && r.ranks > 1 ? slower : 0, all_came = start + 150 + (r.ranks > 1 ? slower : 0);
    r.begin(start);
    {
        Span const forward(Event::forward, 2);
        r.at(start + 100);
    }
    {
        Span const backward(Event::backward, 2);
        r.at(start + 150 + mine);
        observe::mark(Event::reduction_issued, 0);
    }
    {
        Span const backward(Event::backward, 1);
        r.at(start + 250 + mine);
    }
    {
        Span const drain(Event::drain);
        r.at(start + 260 + mine);
        Nanoseconds const done = std::max(all_came + 200, start + 260 + mine);
        {
            Span const wait(Event::reduction_wait, 0);
            r.at(done);
        }
        observe::record({Event::reduction, 0, 0, start + 150 + mine + r.hand.shift, done + r.hand.shift, 64});
    }
    Nanoseconds const now = r.hand.time;
    {
        Span const norm(Event::norm);
        r.at(now + 5);
    }
    return r.end(now + 30);
}

TEST_CASE("a wait is split at the moment when the last rank came") {
    if (world().size() == 1) return;
    VirtualRank r;
    for (int step = 0; step < 3; ++step) {
        StepResult const result = one_step(r, 10'000 * step, 1000);
        // From 260 to 1350 after the start the fast ranks wait; the slow one came at 1150.
        CHECK(result.times[Activity::late_peer] == (r.slow() ? 0 : 890));
        CHECK(result.times[Activity::gradients_wait] == (r.slow() ? 100 : 210));
        CHECK(result.times[Activity::compute] == (r.slow() ? 1250 : 250));
        CHECK(result.times[Activity::update] == 5);
        CHECK(result.times.total() == 1380);
    }
}

TEST_CASE("the wire is busy once all have come, and what hid it is told") {
    if (world().size() == 1) return;
    VirtualRank             r;
    StepResult const        result = one_step(r, 0, 1000);
    StepCommunication const comm   = result.communication;
    CHECK(comm.wire_ns == 200);
    CHECK(comm.meanwhile.total() == 200);
    CHECK(comm.meanwhile[Activity::compute] == (r.slow() ? 100 : 0));
    CHECK(comm.meanwhile[Activity::gradients_wait] == (r.slow() ? 100 : 200));
    StepResult const even = one_step(r, 10'000, 0);  // all come at 150: hidden until 250
    CHECK(even.communication.wire_ns == 200);
    CHECK(even.communication.meanwhile[Activity::compute] == 100);
    CHECK(even.times[Activity::late_peer] == 0);
}

TEST_CASE("all ranks name the slow one, and where it lost the time") {
    VirtualRank      r;
    StepResult const result = one_step(r, 0, 1000);
    LatePeer const   late   = result.communication.late;
    if (r.ranks == 1) {
        CHECK(late.ns == 0);
        CHECK(late.phase == LatePeer::Phase::none);
        return;
    }
    CHECK(late.rank == r.ranks - 1);
    CHECK(late.ns == 1000);
    CHECK(late.phase == LatePeer::Phase::backward);
    CHECK(late.unit == 2);
    CHECK(one_step(r, 10'000, 0).communication.late.ns == 0);
}

TEST_CASE("data and time between steps are named too, and the update of the step before") {
    if (world().size() == 1) return;
    using Phase = LatePeer::Phase;
    for (Phase const phase : {Phase::data, Phase::between_steps, Phase::update}) {
        VirtualRank r;
        Nanoseconds start = 0;
        one_step(r, start, 0);
        Nanoseconds const delay = r.slow() ? 700 : 0;
        Nanoseconds       now   = r.hand.time;
        if (phase == Phase::data) {
            Span const wait(Event::batch_wait);
            r.at(now += delay);
        } else if (phase == Phase::update) {
            Span const update(Event::update);
            r.at(now += delay);
        }
        now += phase == Phase::between_steps ? delay : 0;
        LatePeer const late = one_step(r, now, 0).communication.late;
        CHECK(late.rank == r.ranks - 1);
        CHECK(late.ns == 700);
        if (phase != Phase::update) CHECK(late.phase == phase);
    }
}

TEST_CASE("a rank that waits for another one's data between two steps is not the slow one") {
    if (world().size() == 1) return;
    VirtualRank r;
    one_step(r, 0, 0);
    Nanoseconds now = r.hand.time;
    {
        Span const wait(Event::batch_wait);
        r.at(now + (r.slow() ? 700 : 0));
    }
    {
        Span const agreement(Event::agreement);
        r.at(now += 701);
    }
    LatePeer const late = one_step(r, now, 0).communication.late;
    CHECK(late.rank == r.ranks - 1);
    CHECK(late.ns == 700);
    CHECK(late.phase == LatePeer::Phase::data);
}

TEST_CASE("an AllGather waits for the ranks of its group alone") {
    if (world().size() != 4) return;
    VirtualRank       r(2);
    Nanoseconds const came = r.rank < 2 ? 100 : 900;  // the other group is slower
    r.begin(0);
    r.at(came);
    observe::mark(Event::gather_issued, 1);
    {
        Span const wait(Event::gather_wait, 1);
        r.at(came + 300);
    }
    observe::record({Event::gather, 0, 1, came + r.hand.shift, came + 300 + r.hand.shift, 64});
    StepResult const result = r.end(2000);
    CHECK(result.times[Activity::late_peer] == 0);
    CHECK(result.times[Activity::parameters_wait] == 300);
    CHECK(result.communication.wire_ns == 300);
}

TEST_CASE("a step of many micro-steps loses no record where each is read in time") {
    VirtualRank r;
    r.begin(0);
    for (int micro_step = 0; micro_step < 3; ++micro_step) {
        for (std::size_t i = 0; i < observe::Track::capacity / 2; ++i) observe::mark(Event::bucket_ready, i);
        observe::mark(Event::reduction_issued, 0);
        r.arrivals.read_own();
    }
    CHECK(r.end(60).communication.lost_records == 0);
    r.begin(100);
    for (std::size_t i = 0; i < observe::Track::capacity + 10; ++i) observe::mark(Event::bucket_ready, i);
    CHECK(r.end(160).communication.lost_records >= 10);
}

TEST_CASE("one rank has nobody to wait for, and its times stay as they were") {
    if (world().size() > 1) return;
    VirtualRank      r;
    StepResult const result = one_step(r, 0, 1000);
    CHECK(result.times[Activity::late_peer] == 0);
    CHECK(result.times[Activity::gradients_wait] == 100);
    CHECK(result.times.total() == 380);
}

TEST_CASE("a step whose records were overwritten is not split, and does not stop the ranks") {
    if (world().size() == 1) return;
    VirtualRank r;
    r.begin(0);
    for (std::size_t i = 0; i < 10; ++i) observe::mark(Event::reduction_issued, i);
    if (r.slow())
        for (std::size_t i = 0; i < observe::Track::capacity; ++i) observe::mark(Event::bucket_ready, i);
    {
        Span const wait(Event::reduction_wait, 3);
        r.at(50);
    }
    StepResult const result = r.end(60);
    CHECK(result.times.total() == 60);
    CHECK(result.times[Activity::gradients_wait] == 50);
    CHECK(result.times[Activity::late_peer] == 0);
}

}  // namespace arrivals_test
