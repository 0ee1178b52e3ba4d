#include "lockstep/nn/llama.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "models.hpp"
#include "run.hpp"

int train_gpt::run_llama_fp32(Settings const& settings, lockstep::comm::Communicator const& world) {
    return run<lockstep::nn::Llama<lockstep::tensor::ArenaStorage>, lockstep::precision::Fp32>(settings, world);
}
