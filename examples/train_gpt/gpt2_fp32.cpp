#include "lockstep/nn/gpt2.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "models.hpp"
#include "run.hpp"

int train_gpt::run_gpt2_fp32(Settings const& settings, lockstep::comm::Communicator const& world) {
    return run<lockstep::nn::Gpt2<lockstep::tensor::ArenaStorage>, lockstep::precision::Fp32>(settings, world);
}
