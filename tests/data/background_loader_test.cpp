#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>

#include "lockstep/data/background_loader.hpp"

namespace background_loader_test {

using lockstep::data::BackgroundLoader;

void await(std::atomic<std::uint64_t> const& value, std::uint64_t least) {
    while (value.load() < least) std::this_thread::yield();
}

TEST_CASE("items come in order, also to a slow and to a fast reader") {
    auto const fill = [](std::uint64_t& slot, std::uint64_t index) { slot = index * index; };
    for (bool const slow : {false, true}) {
        BackgroundLoader<std::uint64_t, decltype(fill)> loader({0, 0}, fill, 5);
        for (std::uint64_t i = 5; i < (slow ? 25u : 2000u); ++i) {
            std::uint64_t const& item = loader.next();
            if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            REQUIRE(item == i * i);
        }
    }
}

TEST_CASE("two items are made ready unasked, one more as soon as one is given back, and the one in use is left alone") {
    std::atomic<std::uint64_t> filled{0};
    auto const                 fill = [&filled](std::uint64_t& slot, std::uint64_t index) {
        slot   = 100 + index;
        filled = index + 1;
    };
    BackgroundLoader<std::uint64_t, decltype(fill)> loader({0, 0}, fill, 0);
    await(filled, 2);
    std::uint64_t const& first = loader.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(filled == 2);
    CHECK(first == 100);
    CHECK(loader.next() == 101);
    await(filled, 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(filled == 3);
}

TEST_CASE("what the thread throws arrives at the next that needed its item, and at every later one") {
    auto const fill = [](int& slot, std::uint64_t index) {
        if (index == 3) throw std::runtime_error("item 3");
        slot = static_cast<int>(index);
    };
    BackgroundLoader<int, decltype(fill)> loader({0, 0}, fill, 0);
    for (int i = 0; i < 3; ++i) CHECK(loader.next() == i);
    CHECK_THROWS_WITH_AS(loader.next(), "item 3", std::runtime_error);
    CHECK_THROWS_WITH_AS(loader.next(), "item 3", std::runtime_error);
}

TEST_CASE("a wait for a slow thread is measured") {
    auto const fill = [](int& slot, std::uint64_t index) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        slot = static_cast<int>(index);
    };
    BackgroundLoader<int, decltype(fill)> loader({0, 0}, fill, 0);
    auto const                            start = std::chrono::steady_clock::now();
    loader.next();
    auto const outside = std::chrono::steady_clock::now() - start;
    CHECK(loader.last_wait().count() > 0);
    CHECK(loader.last_wait() <= outside);
}

TEST_CASE("a loader says whether the next item is there, and waits for it no longer than it may") {
    std::atomic<std::uint64_t> allowed{1};
    auto const                 fill = [&allowed](std::uint64_t& slot, std::uint64_t index) {
        await(allowed, index + 1);
        if (index == 2) throw std::runtime_error("no more");
        slot = index;
    };
    BackgroundLoader<std::uint64_t, decltype(fill)> loader({0, 0}, fill, 0);
    CHECK(loader.ready(std::chrono::seconds(60)));
    CHECK(loader.next() == 0);
    CHECK_FALSE(loader.ready(std::chrono::milliseconds(20)));
    allowed = 2;
    CHECK(loader.ready(std::chrono::seconds(60)));
    CHECK(loader.next() == 1);
    CHECK_FALSE(loader.ready({}));
    allowed = 3;
    CHECK(loader.ready(std::chrono::seconds(60)));  // the error is there
    CHECK_THROWS_WITH_AS(loader.next(), "no more", std::runtime_error);
}

TEST_CASE("a loader can go at any moment") {
    auto const fill = [](int& slot, std::uint64_t index) { slot = static_cast<int>(index); };
    for (int taken = 0; taken < 200; ++taken) {
        BackgroundLoader<int, decltype(fill)> loader({0, 0}, fill, 0);
        for (int i = 0; i < taken % 4; ++i) CHECK(loader.next() == i);
    }
}

}  // namespace background_loader_test
