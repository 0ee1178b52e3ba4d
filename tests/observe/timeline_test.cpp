#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/observe/timeline.hpp"

using namespace lockstep::observe;

namespace {

/// A clock that a test sets.
struct SetClock {
    Nanoseconds time = 0;

    Clock clock() const noexcept {
        return {[](void const* source) noexcept { return static_cast<SetClock const*>(source)->time; }, this};
    }
};

std::vector<Record> records_of(Track const& track, std::uint64_t from = 0) {
    std::vector<Record> all;
    track.read(from, [&](Record const& r) { all.push_back(r); });
    return all;
}

std::atomic<std::size_t> allocations{0};

// Out of sight of the compiler, which would pair std::free with the operator new that it knows.
[[gnu::noinline]] void  released(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void* counted(std::size_t bytes) {
    ++allocations;
    if (void* const memory = std::malloc(bytes)) return memory;
    throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void  operator delete(void* memory) noexcept { released(memory); }
void  operator delete(void* memory, std::size_t) noexcept { released(memory); }

TEST_CASE("spans and instants come back as they were recorded, spans when they end") {
    SetClock          hand;
    Timeline          own(hand.clock());
    UseTimeline const use(own);
    hand.time = 100;
    {
        Span const outer(Event::backward, 7, 2);
        hand.time = 150;
        mark(Event::bucket_ready, 4'000'000'000u);
        {
            Span const inner(Event::reduction_wait, 3, 65535, std::uint64_t{1} << 40);
            hand.time = 175;
        }
        hand.time = 200;
    }
    record({Event::gather, 1, 5, -3, 12, 99});
    CHECK(records_of(track()) == std::vector<Record>{{Event::bucket_ready, 0, 4'000'000'000u, 150, 150, 0},
                                                     {Event::reduction_wait, 65535, 3, 150, 175, std::uint64_t{1} << 40},
                                                     {Event::backward, 2, 7, 100, 200, 0},
                                                     {Event::gather, 1, 5, -3, 12, 99}});
}

TEST_CASE("a ring keeps the latest records and says how many were lost") {
    Timeline          own;
    UseTimeline const use(own);
    constexpr auto    extra = 100u;
    for (std::uint32_t i = 0; i < Track::capacity + extra; ++i) record({Event::forward, 0, i, i, i + 1, i});
    std::uint64_t       cursor = 0;
    std::vector<Record> kept;
    std::uint64_t const lost = track().read(cursor, [&](Record const& r) { kept.push_back(r); });
    CHECK(cursor == Track::capacity + extra);
    CHECK(lost + kept.size() == cursor);
    CHECK(lost >= extra);
    CHECK(lost <= extra + 1);  // the oldest one may be written at this moment
    for (std::size_t i = 0; i < kept.size(); ++i) CHECK(kept[i].index == lost + i);
    record({Event::forward, 0, 7, 0, 1, 0});
    kept.clear();
    CHECK(track().read(cursor, [&](Record const& r) { kept.push_back(r); }) == 0);
    CHECK(kept == std::vector<Record>{{Event::forward, 0, 7, 0, 1, 0}});
}

TEST_CASE("a reader that runs beside a writer sees whole records only, each once and in order") {
    Timeline                own;
    std::atomic<bool>       done{false};
    constexpr std::uint32_t count = 300'000;
    std::thread             writer([&] {
        UseTimeline const use(own);
        for (std::uint32_t i = 0; i < count; ++i)
            record({Event::update, static_cast<std::uint16_t>(i), i, i, Nanoseconds{i} * 3, i * 5ull});
        done = true;
    });
    while (own.tracks() == 0) std::this_thread::yield();
    std::uint64_t cursor = 0, lost = 0, seen = 0, torn = 0, next = 0, disordered = 0;
    for (bool last = false; !last;) {
        last = done;
        lost += own.track(0).read(cursor, [&](Record const& r) {
            torn +=
                r.begin != r.index || r.end != r.begin * 3 || r.bytes != r.index * 5ull || r.part != static_cast<std::uint16_t>(r.index);
            disordered += r.index < next;
            next = r.index + 1;
            ++seen;
        });
    }
    writer.join();
    CHECK(torn == 0);
    CHECK(disordered == 0);
    CHECK(seen + lost == count);
    CHECK(next == count);
}

TEST_CASE("each thread has a track, and one that has ended leaves it to the next") {
    std::size_t const before = process_timeline().tracks();
    std::size_t       first = 0, second = 0;
    std::thread([&] {
        name_thread("worker");
        mark(Event::version, 1);
        first = track().number();
    }).join();
    CHECK(process_timeline().track(first).thread() == "worker");
    std::thread([&] {
        mark(Event::version, 2);
        second = track().number();
        CHECK(track().thread() == "thread");
    }).join();
    CHECK(first == second);
    CHECK(process_timeline().tracks() <= before + 1);
    auto const records = records_of(process_timeline().track(first));
    REQUIRE(records.size() >= 2);
    CHECK(records[records.size() - 2].index == 1);
    CHECK(records[records.size() - 1].index == 2);

    std::set<std::size_t>    numbers;
    std::vector<std::size_t> of(4);
    std::atomic<int>         waiting{4};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < of.size(); ++i)
        threads.emplace_back([&, i] {
            of[i] = track().number();
            --waiting;
            while (waiting > 0) std::this_thread::yield();
        });
    for (std::thread& thread : threads) thread.join();
    numbers.insert(of.begin(), of.end());
    CHECK(numbers.size() == of.size());
}

TEST_CASE("a thread records in the timeline that it uses, with that one's clock") {
    SetClock      hand{.time = 42};
    Timeline      own(hand.clock());
    Timeline&     process = timeline();
    std::uint64_t before  = track().written();
    {
        UseTimeline const use(own);
        CHECK(&timeline() == &own);
        CHECK(now() == 42);
        mark(Event::version, 9);
    }
    CHECK(&timeline() == &process);
    CHECK(track().written() == before);
    CHECK(records_of(own.track(0)) == std::vector<Record>{{Event::version, 0, 9, 42, 42, 0}});
}

TEST_CASE("the issues of a thread are counted even where their records were lost") {
    Timeline          own;
    UseTimeline const use(own);
    for (std::size_t i = 0; i < 2 * Track::capacity; ++i) mark(i % 2 == 0 ? Event::gather_issued : Event::gather);
    CHECK(track().issued() == Track::capacity);
}

TEST_CASE("recording allocates nothing after the first record") {
    StepClock    clock;
    BookIn const book(clock);
    mark(Event::version);
    clock.restart(now());
    std::size_t const before = allocations;
    for (std::size_t i = 0; i < 2 * Track::capacity; ++i) {
        Span const span(Event::backward, i);
        mark(Event::reduction_issued, i);
    }
    CHECK(allocations == before);
}

TEST_CASE("every event has a name, and what belongs to a collective belongs together") {
    std::set<std::string_view> names;
    for (std::size_t e = 0; e < events; ++e) {
        auto const event = static_cast<Event>(e);
        CHECK(!name(event).empty());
        names.insert(name(event));
        CHECK(is_issue(event) + is_transfer(event) + is_wait(event) <= 1);
        if (is_transfer(event) || is_wait(event)) CHECK(is_issue(issue_of(event)));
    }
    CHECK(names.size() == events);
    for (std::size_t a = 0; a < activities; ++a) CHECK(!name(static_cast<Activity>(a)).empty());
    CHECK(issue_of(Event::gather_wait) == Event::gather_issued);
    CHECK(issue_of(Event::reduction) == Event::reduction_issued);
    CHECK(issue_of(Event::sum_wait) == Event::sum_issued);
}

TEST_CASE("a relation between clocks leads there and back") {
    ClockRelation const relation{.at = 1'000'000, .offset = -250'000, .drift = 2e-5, .error = 10};
    CHECK(relation.common(1'000'000) == 750'000);
    CHECK(relation.common(51'000'000) == 51'000'000 - 250'000 + 1000);
    for (Nanoseconds const own : {Nanoseconds{0}, Nanoseconds{1'000'000}, Nanoseconds{900'000'000'000}})
        CHECK(std::abs(relation.own(relation.common(own)) - own) <= 10 + own / 1'000'000'000);
}
