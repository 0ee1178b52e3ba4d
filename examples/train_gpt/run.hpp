#pragma once
// A run: data, trainer, loop, sample, export.

#include "any_trainer.hpp"
#include "last_events.hpp"
#include "lockstep/comm/communicator.hpp"
#include "settings.hpp"

namespace train_gpt {

/// Runs to the end; returns the exit code. Collective.
int run(Settings const& settings, lockstep::comm::Communicator const& world, MakeTrainer* make_trainer, LastEvents& events);

}  // namespace train_gpt
