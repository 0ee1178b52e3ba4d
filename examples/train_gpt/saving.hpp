#pragma once
// Checkpoints of a run.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "any_trainer.hpp"
#include "lockstep/io/checkpoint_facts.hpp"
#include "lockstep/train/step_result.hpp"
#include "settings.hpp"

namespace train_gpt {

/// What a checkpoint of this run says of its configuration besides what its trainer knows.
using Configuration = std::vector<std::pair<std::string, std::string>>;
Configuration saved_configuration(Settings const& settings, std::uint64_t data_checksum);

/// Continues from the newest checkpoint of --resume. Collective.
lockstep::io::CheckpointFacts resume_run(Settings const& settings, AnyTrainer& trainer);

/// What is different from the run that was saved, for people; empty where nothing is that decides what the steps do.
std::string what_changed(Configuration const& saved, Configuration const& now);

/// Saves what --save, --save-every and --keep ask for.
class Saving {
public:
    /// Makes the folder. One that cannot be made, or that another run saves to, is an input error. `run`: that is continued, empty where
    /// none is. Collective.
    Saving(Settings const& settings, AnyTrainer& trainer, Configuration configuration, std::string const& run);
    ~Saving();

    /// Who is told of every checkpoint that is complete. Standard error is told of every one that could not be written.
    void tell(std::function<void(std::string const&)> say);

    /// After a step. What falls due while an earlier one is being written is left out: the step is held up by a copy of the state at
    /// most. Collective.
    void after_step(lockstep::StepResult const& result, lockstep::io::RunPosition position);

    /// Between two parts of what lasts long: takes a save that is under way further. Collective.
    void go_on();

    /// Saves where the run ends, unless that is done, and waits until it is written. False where it could not be, which standard error has
    /// been told, or where weights are no finite numbers, which the run ends with. Collective.
    bool finish(lockstep::io::RunPosition position);

private:
    class Work;
    std::unique_ptr<Work> work_;  // none without --save
};

}  // namespace train_gpt
