#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "lockstep/observe/memory_curve.hpp"

namespace memory_curve_test {

using namespace lockstep::observe;

TEST_CASE("a curve records what has changed, and all of it at first") {
    Timeline          own;
    UseTimeline const use(own);
    MemoryCurve       curve;
    std::uint64_t     cursor = 0;
    auto const        news   = [&] {
        std::map<std::uint32_t, std::uint64_t> found;
        track().read(cursor, [&](Record const& r) {
            CHECK(r.event == Event::memory);
            found[r.index] = r.bytes;
        });
        return found;
    };
    auto const gradients = static_cast<std::uint32_t>(Category::gradients);

    curve.sample(7);
    auto const first = news();
    CHECK(first.size() == categories + 1);
    CHECK(first.at(arena_in_use) == 7);
    curve.sample(7);
    CHECK(news().empty());
    ledger().add(Category::gradients, 1000);
    curve.sample(9);
    CHECK(news() == std::map<std::uint32_t, std::uint64_t>{{gradients, first.at(gradients) + 1000}, {arena_in_use, 9}});
    ledger().remove(Category::gradients, 1000);
    curve.sample(9);
    CHECK(news() == std::map<std::uint32_t, std::uint64_t>{{gradients, first.at(gradients)}});
}

}  // namespace memory_curve_test
