#include "lockstep/nn/llama.hpp"
#include "lockstep/optim/adamw.hpp"
#include "run_of.hpp"

std::unique_ptr<Run> llama_bf16(Strategy strategy, lockstep::state::ModelSizes const& sizes, lockstep::comm::Communicator const& world,
                                RunOptions const& options) {
    using Model = lockstep::nn::Llama<lockstep::tensor::ArenaStorage>;
    return make_run<Model, lockstep::precision::Bf16, lockstep::optim::AdamW>(strategy, sizes, world, options, lockstep::optim::AdamW{});
}
