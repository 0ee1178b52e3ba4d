#include "lockstep/comm/clock_alignment.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "lockstep/comm/environment.hpp"

namespace clock_alignment_test {

using namespace lockstep;
using observe::Nanoseconds;

comm::Environment& environment() {
    static comm::Environment instance;
    return instance;
}
comm::Communicator const& world() { return environment().world(); }

Nanoseconds true_time() { return observe::steady_clock().now(); }

/// The machine's clock, shifted, and faster by `drift` from `zero` on.
struct ShiftedClock {
    Nanoseconds shift = 0;
    double      drift = 0;
    Nanoseconds zero  = 0;

    Nanoseconds of(Nanoseconds time) const noexcept {
        return time + shift + static_cast<Nanoseconds>(drift * static_cast<double>(time - zero));
    }
    observe::Clock clock() const noexcept {
        return {[](void const* source) noexcept { return static_cast<ShiftedClock const*>(source)->of(true_time()); }, this};
    }
};

TEST_CASE("ranks of one machine read the same clock, without error") {
    observe::Timeline          own;
    observe::UseTimeline const use(own);
    comm::ClockAlignment const alignment(world());
    CHECK(alignment.relation().offset == 0);
    CHECK(alignment.relation().drift == 0);
    CHECK(alignment.relation().error == 0);
    CHECK(&alignment.relation() == &own.relation());
}

TEST_CASE("a shifted clock is related to rank 0's to within the error that is shown") {
    for (Nanoseconds const shift : {Nanoseconds{0}, Nanoseconds{3'600'000'000'000}, Nanoseconds{-75'000'000}}) {
        ShiftedClock const         hand{.shift = shift * world().rank()};
        observe::Timeline          own(hand.clock());
        observe::UseTimeline const use(own);
        comm::ClockAlignment const alignment(world());
        auto const&                found = alignment.relation();
        INFO("rank ", world().rank(), " shift ", hand.shift, " offset ", found.offset, " error ", found.error);
        CHECK(std::abs(found.offset + hand.shift) <= found.error);
        if (world().rank() != 0 && shift != 0) {
            CHECK(found.error > 0);
            CHECK(found.error < 1'000'000'000);
        }
        Nanoseconds const now = true_time();
        CHECK(std::abs(found.common(hand.of(now)) - now) <= found.error + 1);
    }
}

TEST_CASE("a drift is found once it exceeds the errors, and relates later times") {
    ShiftedClock const         hand{.shift = 5'000'000'000 * world().rank(), .drift = world().rank() == 0 ? 0 : 0.5, .zero = true_time()};
    observe::Timeline          own(hand.clock());
    observe::UseTimeline const use(own);
    comm::ClockAlignment       alignment(world());
    if (world().size() > 1 && world().rank() != 0) CHECK(alignment.relation().drift == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    alignment.renew();
    auto const found = alignment.relation();
    if (world().rank() == 0) return;
    // A rank's clock gains 0.5 ns a true nanosecond, hence 1/3 of each of its own.
    INFO("drift ", found.drift, " error ", found.error);
    CHECK(found.drift < -0.2);
    CHECK(found.drift > -0.45);
    Nanoseconds const later = true_time() + 100'000'000;
    CHECK(std::abs(found.common(hand.of(later)) - later) < 100'000'000 / 4);
}

TEST_CASE("relations are renewed after 1, 2, 4, 8, ... steps") {
    ShiftedClock const         hand{.shift = Nanoseconds{1'000'000'000} * world().rank()};
    observe::Timeline          own(hand.clock());
    observe::UseTimeline const use(own);
    comm::ClockAlignment       alignment(world());
    int                        renewed = 0;
    for (std::uint64_t version = 0; version <= 20; ++version) {
        Nanoseconds const before = alignment.relation().at;
        alignment.after_step(version);
        renewed += alignment.relation().at != before;
    }
    CHECK(renewed == (world().rank() == 0 ? 0 : 5));
}

}  // namespace clock_alignment_test
