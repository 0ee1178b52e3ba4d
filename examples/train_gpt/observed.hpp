#pragma once
// What --trace and --report show of a run, and who slowed it down.

#include <string>
#include <vector>

#include "lockstep/comm/clock_alignment.hpp"
#include "lockstep/report/header.hpp"
#include "lockstep/report/history.hpp"
#include "lockstep/report/recording.hpp"
#include "lockstep/report/slow_rank.hpp"
#include "lockstep/train/step_result.hpp"
#include "lost.hpp"
#include "settings.hpp"

namespace train_gpt {

/// Keeps the clocks of the ranks aligned and records the steps that were asked for.
class Observed {
public:
    /// Collective.
    Observed(Settings const& settings, lockstep::comm::Communicator const& world, std::vector<lockstep::state::Unit> const& units);

    /// How well the clocks agree, for people.
    std::string clocks() const;

    /// Before the step that leads to this version.
    void begin_step(std::uint64_t version);
    /// What is no part of a step, such as an evaluation behind it, is not recorded: it would overwrite the step.
    template <class Body>
    auto beside_steps(Body const& body) {
        if (recording_) recorder_.copy();
        auto result = body();
        if (recording_) recorder_.start();
        return result;
    }
    /// Collective.
    void end_step(lockstep::StepResult const& result, lockstep::report::StepMetrics const& metrics);

    /// A sentence about the rank that came last, or nothing.
    std::string slow_rank() const { return slow_.sentence(); }

    /// What the timelines of the ranks have lost, or nothing. Collective.
    std::string lost() const;

    /// Writes the files. Collective.
    void write(lockstep::report::RunHeader const& run, Lost& lost) const;

private:
    std::string where(lockstep::LatePeer const& late) const;
    bool        records(std::uint64_t version) const noexcept;
    void        write_page(lockstep::report::RunHeader const& run, lockstep::report::Recording recording) const;

    Settings const&                     settings_;
    lockstep::comm::Communicator const& world_;
    lockstep::comm::ClockAlignment      clocks_;
    double                              error_us_ = 0;  // of the clocks at the beginning
    std::vector<std::string>            units_;
    lockstep::report::Recorder          recorder_;
    bool                                recording_ = false;
    lockstep::report::History           history_;  // of rank 0
    lockstep::report::SlowRank          slow_;
    std::uint64_t                       lost_ = 0;  // records of this rank
};

}  // namespace train_gpt
