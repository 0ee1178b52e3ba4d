#pragma once
// The models that train_gpt offers, each in a translation unit of its own.

#include "lockstep/comm/fwd.hpp"
#include "settings.hpp"

namespace train_gpt {

int run_gpt2_fp32(Settings const& settings, lockstep::comm::Communicator const& world);
int run_gpt2_bf16(Settings const& settings, lockstep::comm::Communicator const& world);
int run_gpt2_fp16(Settings const& settings, lockstep::comm::Communicator const& world);
int run_llama_fp32(Settings const& settings, lockstep::comm::Communicator const& world);
int run_llama_bf16(Settings const& settings, lockstep::comm::Communicator const& world);
int run_llama_fp16(Settings const& settings, lockstep::comm::Communicator const& world);

}  // namespace train_gpt
