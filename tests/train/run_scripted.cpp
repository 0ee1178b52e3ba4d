#include "lockstep/optim/adam.hpp"
#include "lockstep/optim/sgd.hpp"
#include "run_of.hpp"
#include "scripted_model.hpp"

namespace {

using Model      = Scripted<lockstep::tensor::ArenaStorage>;
using BfloatWire = lockstep::precision::Mixed<float, float, lockstep::precision::bfloat16>;

}  // namespace

using namespace lockstep;

std::unique_ptr<Run> scripted_fp32(Strategy strategy, state::ModelSizes const& sizes, comm::Communicator const& world,
                                   RunOptions const& options) {
    return make_run<Model, precision::Fp32>(strategy, sizes, world, options, optim::Sgd{});
}
std::unique_ptr<Run> scripted_bf16(Strategy strategy, state::ModelSizes const& sizes, comm::Communicator const& world,
                                   RunOptions const& options) {
    return make_run<Model, precision::Bf16>(strategy, sizes, world, options, optim::Sgd{});
}
std::unique_ptr<Run> scripted_bf16_wire(Strategy strategy, state::ModelSizes const& sizes, comm::Communicator const& world,
                                        RunOptions const& options) {
    return make_run<Model, BfloatWire>(strategy, sizes, world, options, optim::Sgd{});
}
std::unique_ptr<Run> scripted_adam(Strategy strategy, state::ModelSizes const& sizes, comm::Communicator const& world,
                                   RunOptions const& options) {
    return make_run<Model, precision::Fp16>(strategy, sizes, world, options, optim::Adam{.beta2 = 0.999});
}
