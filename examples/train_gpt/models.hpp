#pragma once
// The runs that train_gpt offers, one translation unit for each precision.

#include "lockstep/comm/fwd.hpp"
#include "settings.hpp"

namespace train_gpt {

int run_fp32(Settings const& settings, lockstep::comm::Communicator const& world);
int run_bf16(Settings const& settings, lockstep::comm::Communicator const& world);
int run_fp16(Settings const& settings, lockstep::comm::Communicator const& world);

}  // namespace train_gpt
