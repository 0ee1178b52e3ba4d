#include "models.hpp"
#include "run.hpp"

int train_gpt::run_bf16(Settings const& settings, lockstep::comm::Communicator const& world) {
    return run_model<lockstep::precision::Bf16>(settings, world);
}
