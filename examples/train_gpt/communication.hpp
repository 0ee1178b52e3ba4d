#pragma once
// What travels between the ranks of a run, in words.

#include <string>

#include "any_trainer.hpp"
#include "settings.hpp"

namespace train_gpt {

/// Who moves messages, what is gathered and summed, and what it costs to add up micro-steps here or in the shards.
std::string describe_communication(Settings const& settings, AnyTrainer const& trainer);

}  // namespace train_gpt
