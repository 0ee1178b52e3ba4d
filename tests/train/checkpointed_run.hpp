#pragma once
#include "lockstep/train/checkpoints.hpp"
#include "lockstep/train/resume.hpp"
#include "run_of.hpp"

/// With checkpoints.
template <class Trainer>
class CheckpointedRun : public RunOf<Trainer> {
public:
    using RunOf<Trainer>::RunOf;

    std::string save_checkpoint(std::filesystem::path const& folder, std::function<void()> const& meanwhile) override {
        lockstep::Checkpoints<Trainer> checkpoints(this->trainer_, {.directory = folder});
        checkpoints.save({.next_sample = 100 * this->trainer_.version(), .skipped_in_a_row = 3});
        meanwhile();
        auto const result = checkpoints.finish();
        if (!result) return "no result";
        if (result->place.empty() == result->failure.empty()) return "a place or a failure, not both";
        return result->failure;
    }
    lockstep::io::RunPosition resume(std::filesystem::path const& path) override { return lockstep::resume(this->trainer_, path).position; }
};
