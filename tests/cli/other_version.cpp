// train_gpt as another version of lockstep would be, up to where that is found.

#include "lockstep/core/config.hpp"

#undef LOCKSTEP_VERSION
#define LOCKSTEP_VERSION "9.9.9"
#include "train_gpt.cpp"

namespace train_gpt {

Settings parse(int, char const* const*) { return {}; }
void     catch_stop_signals() {}
void     report_lost_output() {}
int      run(Settings const&, lockstep::comm::Communicator const&, MakeTrainer*, LastEvents&) { return 0; }

std::unique_ptr<AnyTrainer> make_fp32_trainer(Settings const&, lockstep::comm::Communicator const&) { return nullptr; }
std::unique_ptr<AnyTrainer> make_bf16_trainer(Settings const&, lockstep::comm::Communicator const&) { return nullptr; }
std::unique_ptr<AnyTrainer> make_fp16_trainer(Settings const&, lockstep::comm::Communicator const&) { return nullptr; }

}  // namespace train_gpt
