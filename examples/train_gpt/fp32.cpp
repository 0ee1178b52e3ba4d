#include "models.hpp"
#include "run.hpp"

int train_gpt::run_fp32(Settings const& settings, lockstep::comm::Communicator const& world) {
    return run_model<lockstep::precision::Fp32>(settings, world);
}
