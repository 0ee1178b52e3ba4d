#include "models.hpp"
#include "run.hpp"

int train_gpt::run_fp16(Settings const& settings, lockstep::comm::Communicator const& world) {
    return run_model<lockstep::precision::Fp16>(settings, world);
}
