// One rank is slow in one block: every rank learns which one and where, and nobody loses a nanosecond.

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "cases.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/optim/sgd.hpp"
#include "lockstep/parallel/replicated.hpp"
#include "lockstep/parallel/sharded.hpp"
#include "lockstep/report/slow_rank.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "lockstep/train/trainer.hpp"
#include "scripted_model.hpp"

namespace slow_rank_test {

using namespace lockstep;
using observe::Activity;

struct Delay {
    bool                      backward = true;
    std::size_t               layer    = 0;
    std::chrono::milliseconds time{0};
};
Delay delay;

/// Blocks may take their time.
struct TakesTime {
    static void block(bool backward, std::size_t layer) {
        if (backward == delay.backward && layer == delay.layer) std::this_thread::sleep_for(delay.time);
    }
};
using Slow = Interrupted<tensor::ArenaStorage, TakesTime>;

/// What three steps with a slow last rank say; the machine may be busy, so the worst one counts.
template <class Strategy>
LatePeer named(Delay const& wanted) {
    Trainer<Slow, precision::Fp32, optim::Sgd, Strategy> trainer(scripted_sizes(3, 4, 2), optim::Sgd{}, world(),
                                                                 {.max_norm = 0, .threads = 1});

    Rows rows{.length = 1, .tokens = {}, .labels = {}};
    for (std::size_t r = 0; r < ranks(); ++r) {
        rows.tokens.push_back(static_cast<std::int32_t>(r % 3));
        rows.labels.push_back(1);
    }
    delay = {};
    trainer.step(rows.mine(), 0.01);
    if (rank() + 1 == ranks()) delay = wanted;
    LatePeer         worst;
    report::SlowRank summary;
    for (int step = 0; step < 3; ++step) {
        observe::Nanoseconds const before = observe::now();
        StepResult const           result = trainer.step(rows.mine(), 0.01);
        observe::Nanoseconds const after  = observe::now();
        LatePeer const             late   = result.communication.late;
        if (late.ns > worst.ns) worst = late;
        summary.add({.rank  = late.rank,
                     .ms    = static_cast<double>(late.ns) * 1e-6,
                     .where = std::string(name(late.phase)) + " of " + std::to_string(late.unit)},
                    static_cast<double>(result.times.total()) * 1e-6);
        for (observe::Nanoseconds const part : result.times.ns) CHECK(part >= 0);
        CHECK(result.times.total() <= after - before);
        // Where it is the others that wait, most of the delay is a wait: for a late peer, or for an operation that the peer has started
        // before it was late and does not move on.
        observe::Nanoseconds const waited =
            result.times[Activity::late_peer] + result.times[Activity::parameters_wait] + result.times[Activity::gradients_wait];
        if (rank() + 1 != ranks()) CHECK(waited > std::chrono::nanoseconds(wanted.time).count() / 2);
        CHECK(result.communication.wire_ns == result.communication.meanwhile.total());
    }
    delay = {};
    INFO(summary.sentence());
    CHECK(summary.sentence().starts_with("rank " + std::to_string(ranks() - 1) + " came last in "));
    CHECK(summary.sentence().ends_with(std::string(wanted.backward ? "backward of " : "forward of ") + std::to_string(1 + wanted.layer)));
    return worst;
}

TEST_CASE_TEMPLATE("the slow rank, its phase and its unit are named within three steps", Strategy, parallel::Replicated<>,
                   parallel::Sharded<>) {
    using Phase = LatePeer::Phase;
    for (bool const backward : {true, false})
        for (std::size_t const layer : {std::size_t{0}, std::size_t{2}}) {
            LatePeer const late = named<Strategy>({backward, layer, std::chrono::milliseconds(50)});
            INFO("rank ", rank(), ", backward ", backward, ", layer ", layer, ": found ", std::string(name(late.phase)), " of ", late.unit);
            CHECK(late.rank == ranks() - 1);
            CHECK(late.phase == (backward ? Phase::backward : Phase::forward));
            CHECK(late.unit == 1 + layer);
        }
}

}  // namespace slow_rank_test
