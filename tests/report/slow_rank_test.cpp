#include "lockstep/report/slow_rank.hpp"

#include <doctest/doctest.h>

namespace slow_rank_test {

using lockstep::report::SlowRank;

TEST_CASE("the rank that cost most is named, with where it lost the time") {
    SlowRank ranks;
    for (int step = 0; step < 3; ++step) ranks.add({.rank = 1, .ms = 50, .where = "backward of h.3"}, 100);
    ranks.add({.rank = 0, .ms = 60, .where = "forward of h.1"}, 100);
    ranks.add({.rank = 2, .ms = 4.9, .where = ""}, 100);
    CHECK(ranks.sentence() == "rank 1 came last in 3 of 5 steps, 50.0 ms behind the others: backward of h.3");
}

TEST_CASE("nobody is named where nobody was late by more than a twentieth of a step") {
    SlowRank ranks;
    CHECK(ranks.sentence().empty());
    ranks.add({.rank = 1, .ms = 4.9, .where = "update"}, 100);
    CHECK(ranks.sentence().empty());
    ranks.add({.rank = 1, .ms = 5.1, .where = ""}, 100);
    CHECK(ranks.sentence() == "rank 1 came last in 1 of 2 steps, 5.1 ms behind the others");
}

}  // namespace slow_rank_test
