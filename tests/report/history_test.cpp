#include "lockstep/report/history.hpp"

#include <doctest/doctest.h>

namespace history_test {

using namespace lockstep::report;

TEST_CASE("a short run is kept whole, of a long one every n-th step, the first, the latest and evaluations") {
    for (std::uint64_t const steps : {0u, 1u, 2u, 7u, 8u, 9u, 100u, 1000u, 4097u}) {
        History history(8);
        for (std::uint64_t s = 1; s <= steps; ++s) {
            StepMetrics step{.step = s};
            if (s == 50) step.val_loss = 1.0;
            history.add(step);
            REQUIRE(history.steps().back().step == s);
            REQUIRE(history.steps().front().step == 1);
        }
        auto const& kept = history.steps();
        INFO(steps);
        CHECK(kept.size() <= 10);  // the evaluation and the latest are besides
        CHECK(kept.size() >= std::min<std::uint64_t>(steps, 4));
        bool evaluated = steps < 50;
        for (std::size_t i = 0; i < kept.size(); ++i) {
            if (i > 0) CHECK(kept[i].step > kept[i - 1].step);
            evaluated = evaluated || kept[i].val_loss.has_value();
        }
        CHECK(evaluated);
        if (steps <= 8) CHECK(kept.size() == steps);
    }
}

}  // namespace history_test
