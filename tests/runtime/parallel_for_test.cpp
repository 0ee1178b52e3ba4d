#include "lockstep/runtime/parallel_for.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <numeric>
#include <vector>

namespace parallel_for_test {

using lockstep::runtime::grain;
using lockstep::runtime::parallel_for;
using lockstep::runtime::Threads;

TEST_CASE("each block is visited once, whatever the number of threads, of blocks and their cost") {
    for (int count : {1, 2, 3}) {
        Threads threads(count);
        CHECK(threads.count() == count);
        for (std::size_t blocks : {0u, 1u, 2u, 3u, 17u, 1000u})
            for (std::size_t cost : {std::size_t{0}, std::size_t{1}, std::size_t{100}, grain, 10 * grain}) {
                std::vector<std::atomic<int>> visits(blocks);
                threads.run([&] { parallel_for(blocks, cost, [&](std::size_t block) { ++visits[block]; }); });
                CHECK(std::all_of(visits.begin(), visits.end(), [](std::atomic<int> const& visit) { return visit == 1; }));
            }
    }
}

TEST_CASE("sums over fixed blocks have the same bits on 1, 2 and 3 threads") {
    std::vector<float> terms(100'000);
    for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = 1.0f / static_cast<float>(i + 1);
    std::vector<float> results;
    for (int count : {1, 2, 3}) {
        Threads            threads(count);
        std::vector<float> parts(100);
        threads.run([&] {
            parallel_for(parts.size(), grain, [&](std::size_t block) {
                for (std::size_t i = 0; i < 1000; ++i) parts[block] += terms[block * 1000 + i];
            });
        });
        results.push_back(std::accumulate(parts.begin(), parts.end(), 0.0f));
    }
    CHECK(results[0] == results[1]);
    CHECK(results[0] == results[2]);
}

TEST_CASE("loops nest") {
    Threads                       threads(2);
    std::vector<std::atomic<int>> visits(64);
    threads.run([&] {
        parallel_for(8, grain, [&](std::size_t outer) { parallel_for(8, grain, [&](std::size_t inner) { ++visits[outer * 8 + inner]; }); });
    });
    CHECK(std::all_of(visits.begin(), visits.end(), [](std::atomic<int> const& visit) { return visit == 1; }));
}

TEST_CASE("run hands back what its body returns, and errors come through") {
    Threads threads(2);
    CHECK(threads.run([] { return 42; }) == 42);
    CHECK_THROWS_AS(threads.run([] {
        parallel_for(100, grain, [](std::size_t block) {
            if (block == 57) throw 57;
        });
    }),
                    int);
}

}  // namespace parallel_for_test
