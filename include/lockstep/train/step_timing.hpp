#pragma once
// The clock of a step: where its thread's time went, and for whom it waited.

#include "lockstep/train/arrivals.hpp"

namespace lockstep {

class StepTiming {
public:
    /// Weights are gathered among `together` consecutive ranks.
    StepTiming(std::size_t units, std::size_t rank, std::size_t ranks, std::size_t together) : arrivals_(units, rank, ranks, together) {}

    /// Spans of the calling thread are booked for this step while it lives.
    observe::BookIn book() { return observe::BookIn(clock_); }

    void restart() {
        observe::name_thread("step");
        begin_ = observe::now();
        clock_.restart(begin_);
        arrivals_.restart(begin_);
    }

    /// To be called after each micro-step: a step of many has more events than a track keeps.
    void keep_up() { arrivals_.read_own(); }

    /// To be called when the last wait of the step is over; what it returns must be waited for before `finish`.
    template <class Strategy>
    auto share(Strategy& strategy) {
        return arrivals_.start(strategy, clock_);
    }

    /// Puts times and communication into the result and ends the step in the timeline.
    void finish(StepResult& result) {
        auto const end = observe::now();
        result.times   = clock_.times(end);
        arrivals_.finish(result, clock_, end);
        observe::record({observe::Event::step, 0, static_cast<std::uint32_t>(result.version), begin_, end, 0});
    }

private:
    observe::StepClock   clock_;
    observe::Nanoseconds begin_ = 0;
    Arrivals             arrivals_;
};

}  // namespace lockstep
