#pragma once
// The clocks of the ranks, related to that of rank 0 by ping-pong (Cristian 1989, "Probabilistic clock synchronization").

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/observe/timeline.hpp"

namespace lockstep::comm {

/// Rank 0 sends, a rank answers with the reading of its clock, which was read between the two readings of rank 0: the middle of the
/// shortest round trip is off by at most half of it. Between machines clocks drift, so the relation is renewed as a run goes on; a
/// drift is believed once it exceeds the errors of the two estimates.
class ClockAlignment {
public:
    /// Relates the calling thread's timeline. Collective.
    explicit ClockAlignment(Communicator const& ranks) : ranks_(ranks.duplicate()), timeline_(observe::timeline()) {
        std::uint64_t const machine  = this_machine();
        auto const          machines = ranks_.gather_values(machine);
        same_machine_                = machine != 0 && machines[0] == machine;
        renew();
    }

    /// To be called after each step with the version it led to: renews after 1, 2, 4, 8, ... steps, so that the error of a constant
    /// drift does not grow with the length of the run. Collective.
    void after_step(std::uint64_t version) {
        if (version != 0 && (version & (version - 1)) == 0) renew();
    }

    /// Collective.
    void renew() {
        if (ranks_.rank() == 0) {
            for (int rank = 1; rank < ranks_.size(); ++rank) ask(rank);
        } else {
            accept(answer());
        }
    }

    observe::ClockRelation const& relation() const noexcept { return timeline_.relation(); }

private:
    static constexpr int              rounds = 16;
    static constexpr std::string_view name   = "comparison of clocks";

    struct Estimate {
        observe::Nanoseconds at = 0, offset = 0, error = std::numeric_limits<observe::Nanoseconds>::max();
    };

    void ask(int rank) const {
        std::array<observe::Nanoseconds, 3> best{0, 0, std::numeric_limits<observe::Nanoseconds>::max()};
        for (int round = 0; round < rounds; ++round) {
            std::array<observe::Nanoseconds, 1> theirs{};
            Request                             arriving = ranks_.start_receive(theirs, rank, 0, name);
            observe::Nanoseconds const          before   = timeline_.now();
            ranks_.send(theirs, rank, 0, name);
            arriving.wait();
            observe::Nanoseconds const after = timeline_.now();
            observe::Nanoseconds const error = (after - before) / 2 + 1;
            if (error < best[2]) best = {theirs[0], before + (after - before) / 2 - theirs[0], error};
        }
        ranks_.send(best, rank, 0, name);
    }

    Estimate answer() const {
        for (int round = 0; round < rounds; ++round) {
            std::array<observe::Nanoseconds, 1> mine{};
            ranks_.receive(mine, 0, 0, name);
            mine[0] = timeline_.now();
            ranks_.send(mine, 0, 0, name);
        }
        std::array<observe::Nanoseconds, 3> best{};
        ranks_.receive(best, 0, 0, name);
        return {best[0], best[1], best[2]};
    }

    void accept(Estimate found) {
        if (same_machine_ && std::abs(found.offset) <= found.error) return timeline_.relate({found.at, 0, 0, 0});  // the same clock
        double drift = 0;
        if (first_.error != std::numeric_limits<observe::Nanoseconds>::max()) {
            double const moved = static_cast<double>(found.offset - first_.offset), passed = static_cast<double>(found.at - first_.at);
            if (std::abs(moved) > static_cast<double>(found.error + first_.error)) drift = moved / passed;
        } else {
            first_ = found;
        }
        timeline_.relate({found.at, found.offset, drift, found.error});
    }

    /// Tells machines apart, and one boot of a machine from the next; 0 where that is unknown.
    static std::uint64_t this_machine() {
        std::ifstream file("/proc/sys/kernel/random/boot_id");
        std::string   id;
        file >> id;
        std::uint64_t hash = id.empty() ? 0 : 0xCBF29CE484222325u;  // FNV-1a
        for (char const c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
        return hash;
    }

    Communicator       ranks_;
    observe::Timeline& timeline_;
    bool               same_machine_ = false;
    Estimate           first_;
};

}  // namespace lockstep::comm
