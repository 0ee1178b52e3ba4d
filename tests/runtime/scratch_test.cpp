#include "lockstep/runtime/scratch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <thread>

namespace scratch_test {

using lockstep::runtime::ScratchFrame;
namespace observe = lockstep::observe;

std::size_t held() { return observe::ledger()[observe::Category::scratch].now.load(); }

TEST_CASE("spans of a frame are aligned and apart, those of an inner frame too") {
    ScratchFrame outer;
    auto const   a = outer.take<float>(100);
    auto const   b = outer.take<double>(7);
    std::ranges::fill(a, 1.0f);
    std::ranges::fill(b, 2.0);
    {
        ScratchFrame inner;
        auto const   c = inner.take<char>(300'000);
        std::ranges::fill(c, 'c');
        for (void* data : {static_cast<void*>(a.data()), static_cast<void*>(b.data()), static_cast<void*>(c.data())})
            CHECK(reinterpret_cast<std::uintptr_t>(data) % lockstep::alignment == 0);
    }
    auto const d = outer.take<float>(1000);
    std::ranges::fill(d, 4.0f);
    CHECK(std::ranges::all_of(a, [](float value) { return value == 1.0f; }));
    CHECK(std::ranges::all_of(b, [](double value) { return value == 2.0; }));
}

TEST_CASE("what a frame took is free after it, so a second pass takes the same memory and none from the heap") {
    float*      first[2] = {};
    std::size_t after    = 0;
    for (float*& data : first) {
        ScratchFrame frame;
        data             = frame.take<float>(1000).data();
        auto const large = frame.take<float>(3'000'000);  // beyond the block that is there
        large[2'999'999] = 1;
        ScratchFrame inner;
        inner.take<float>(1'000'000)[999'999] = 1;
        if (data == first[0]) after = held();
    }
    CHECK(first[0] == first[1]);
    CHECK(held() == after);
    CHECK(after >= 4'000'000 * sizeof(float));
}

TEST_CASE("a span may be empty") {
    ScratchFrame frame;
    CHECK(frame.take<float>(0).empty());
    auto const some = frame.take<float>(3);
    some[2]         = 1;
    CHECK(some.size() == 3);
}

TEST_CASE("each thread has its own memory, booked while the thread lives") {
    ScratchFrame      frame;
    float* const      here   = frame.take<float>(10).data();
    std::size_t const before = held();
    float*            there  = nullptr;
    std::size_t       during = 0;
    std::thread([&] {
        ScratchFrame other;
        there  = other.take<float>(10).data();
        during = held();
    }).join();
    CHECK(here != there);
    CHECK(during > before);
    CHECK(held() == before);
}

TEST_CASE("an empty span as the first of a thread is no allocation of nothing") {
    std::thread([] {
        ScratchFrame frame;
        CHECK(frame.take<float>(0).empty());
        CHECK(frame.take<float>(1).data() != nullptr);
    }).join();
}

}  // namespace scratch_test
