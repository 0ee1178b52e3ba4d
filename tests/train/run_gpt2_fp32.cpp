#include "checkpointed_run.hpp"
#include "lockstep/nn/gpt2.hpp"
#include "lockstep/optim/adamw.hpp"
#include "lockstep/train/weights.hpp"

namespace {

/// With weights from and to files, checkpoints, and sampling.
template <class Trainer>
class FileRun : public CheckpointedRun<Trainer> {
public:
    using CheckpointedRun<Trainer>::CheckpointedRun;
    std::vector<float> next_token_logits(std::span<std::int32_t const> tokens) override { return this->trainer_.next_token_logits(tokens); }
    void               load(std::filesystem::path const& path) override { lockstep::load_weights(this->trainer_, path); }
    void               save(std::filesystem::path const& path) override { lockstep::export_weights(this->trainer_, path); }
};

}  // namespace

std::unique_ptr<Run> gpt2_fp32(Strategy strategy, lockstep::state::ModelSizes const& sizes, lockstep::comm::Communicator const& world,
                               RunOptions const& options) {
    using Model = lockstep::nn::Gpt2<lockstep::tensor::ArenaStorage>;
    return make_run<Model, lockstep::precision::Fp32, lockstep::optim::AdamW, FileRun>(strategy, sizes, world, options,
                                                                                       lockstep::optim::AdamW{});
}
