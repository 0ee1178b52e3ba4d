#include "checkpointed_run.hpp"
#include "lockstep/optim/bf16_state.hpp"
#include "scripted_model.hpp"

std::unique_ptr<Run> scripted_half_state(Strategy strategy, lockstep::state::ModelSizes const& sizes,
                                         lockstep::comm::Communicator const& world, RunOptions const& options) {
    using Optimizer = lockstep::optim::Bf16State<lockstep::optim::AdamW>;
    return make_run<Scripted<lockstep::tensor::ArenaStorage>, lockstep::precision::Fp16, Optimizer, CheckpointedRun>(strategy, sizes, world,
                                                                                                                     options, Optimizer{});
}
