#include "lockstep/nn/gpt2.hpp"
#include "lockstep/optim/adamw.hpp"
#include "run_of.hpp"

std::unique_ptr<Run> gpt2_fp64(Strategy strategy, lockstep::state::ModelSizes const& sizes, lockstep::comm::Communicator const& world,
                               RunOptions const& options) {
    using Model = lockstep::nn::Gpt2<lockstep::tensor::ArenaStorage>;
    return make_run<Model, lockstep::precision::Mixed<double, double, double>, lockstep::optim::AdamW>(strategy, sizes, world, options,
                                                                                                       lockstep::optim::AdamW{});
}
