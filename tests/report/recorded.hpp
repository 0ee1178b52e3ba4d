#pragma once
// A recording of two ranks that tests know by heart: two steps of two units, one bucket and one AllGather each.

#include <string>
#include <vector>

#include "lockstep/report/recording.hpp"

namespace lockstep::test {

inline constexpr observe::Nanoseconds epoch = 1'700'000'000'000'000'123;  // no double holds it

/// Rank 1 comes 100 us later than rank 0 to the reduction of each step.
inline report::Recording recorded() {
    using observe::Event;
    report::Recording all;
    all.units = {"root", "h.0 \"<&>\""};
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        report::Recording::Rank one;
        one.clock = {.at = 5, .offset = rank == 0 ? 0 : -77, .drift = 0, .error = rank == 0 ? 0 : 1500};
        report::Recording::Thread step{"step", {}}, communication{"communication", {}}, idle{"loader", {}};
        observe::Nanoseconds      t    = epoch;
        auto const                span = [&](Event event, std::uint32_t index, observe::Nanoseconds from, observe::Nanoseconds to) {
            step.records.push_back({event, 0, index, t + from, t + to, 0});
        };
        auto const instant = [&](Event event, std::uint32_t index, observe::Nanoseconds at, std::uint64_t bytes = 0) {
            step.records.push_back({event, 0, index, t + at, t + at, bytes});
        };
        auto const us = [](std::int64_t value) { return value * 1000; };
        for (std::uint32_t version = 1; version <= 2; ++version, t += us(1000)) {
            std::int64_t const late = rank == 1 ? 100 : 0;
            instant(Event::memory, 0, us(1), 1000);
            instant(Event::memory, 4, us(1), 4096);
            instant(Event::memory, observe::arena_in_use, us(2), 100);
            instant(Event::gather_issued, 1, us(10));
            span(Event::gather_wait, 1, us(10), us(40));
            span(Event::acquire, 1, us(8), us(41));
            communication.records.push_back({Event::gather, 0, 1, t + us(12), t + us(39), 2'700'000});
            span(Event::forward, 1, us(41), us(200));
            instant(Event::memory, observe::arena_in_use, us(200), 3000);
            instant(Event::bucket_ready, 0, us(300 + late));
            instant(Event::reduction_issued, 0, us(302 + late));
            span(Event::submit, 0, us(301 + late), us(303 + late));
            span(Event::backward, 1, us(210), us(350 + late));
            instant(Event::memory, observe::arena_in_use, us(351 + late), 2000);
            communication.records.push_back({Event::reduction, 0, 0, t + us(304 + late), t + us(500), 1'000'000});
            communication.records.push_back({Event::sum, 0, 0, t + us(320), t + us(510), 8});
            span(Event::reduction_wait, 0, us(360 + late), us(501));
            span(Event::drain, 0, us(355 + late), us(505));
            span(Event::update, 0, us(600), us(700));
            instant(Event::version, version, us(701));
            span(Event::step, version, us(5), us(800));
        }
        one.threads = {idle, step, communication};
        all.ranks.push_back(one);
    }
    return all;
}

}  // namespace lockstep::test
