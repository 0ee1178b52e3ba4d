#pragma once
// A live trainer whose policies are chosen at run time: tests share the instantiations, which are expensive to compile.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/io/checkpoint_facts.hpp"
#include "lockstep/nn/transformer.hpp"
#include "lockstep/optim/groups.hpp"
#include "lockstep/optim/loss_scale.hpp"
#include "lockstep/parallel/strategy.hpp"
#include "lockstep/train/step_result.hpp"

/// `hybrid` is in groups of `shard_group`; 0: as large as possible, but two at least where there are ranks for them.
enum class Strategy { single, replicated, sharded_optimizer, sharded, hybrid };

inline constexpr Strategy strategies[]{Strategy::single, Strategy::replicated, Strategy::sharded_optimizer, Strategy::sharded,
                                       Strategy::hybrid};

/// What TrainerOptions holds, without its header.
struct RunOptions {
    std::uint64_t                seed         = 1337;
    std::size_t                  micro_batch  = 0;
    double                       max_norm     = 0;
    int                          threads      = 1;
    bool                         reproducible = false;
    lockstep::nn::ModelOptions   model        = {};
    lockstep::parallel::Options  strategy     = {};
    lockstep::optim::LossScaling loss_scale   = {};
};

class Run {
public:
    virtual ~Run() = default;

    virtual lockstep::StepResult step(lockstep::data::Batch const& batch, double learning_rate) = 0;
    virtual void                 accumulate(lockstep::data::Batch const& batch)                 = 0;
    virtual lockstep::StepResult apply(double learning_rate)                                    = 0;
    virtual double               loss(lockstep::data::Batch const& batch)                       = 0;  // sum over this rank's valid tokens
    virtual std::vector<float>   next_token_logits(std::span<std::int32_t const> tokens)        = 0;

    virtual lockstep::state::Version                  version() const     = 0;
    virtual double                                    loss_scale() const  = 0;
    virtual void                                      check_replicas()    = 0;
    virtual void                                      look_at_gradients() = 0;
    virtual std::uint64_t                             bytes_sent()        = 0;
    virtual std::vector<lockstep::state::Unit> const& units() const       = 0;
    virtual std::vector<std::size_t>                  owned_elements()    = 0;  // by unit

    // Row-major values. Collective.
    virtual std::vector<double>      parameter(std::string_view name)  = 0;
    virtual std::vector<double>      gradient(std::string_view name)   = 0;
    virtual std::vector<double>      activation(std::string_view name) = 0;
    virtual std::vector<std::string> activations()                     = 0;

    /// All masters := value(parameter, element). Collective.
    virtual void assign(std::function<double(lockstep::state::Parameter const&, std::size_t)> const& value) = 0;
    /// Flips one bit of the first master that this rank holds.
    virtual void flip_bit() = 0;

    /// Saves a checkpoint; `meanwhile` runs while it is written. Returns why it failed, or nothing. Collective.
    virtual std::string               save_checkpoint(std::filesystem::path const& folder, std::function<void()> const& meanwhile);
    virtual lockstep::io::RunPosition resume(std::filesystem::path const& path);

    virtual void load(std::filesystem::path const&) = 0;
    virtual void save(std::filesystem::path const&) = 0;

    /// All parameters, one after another. Collective.
    std::vector<double> weights() {
        std::vector<double> all;
        for (lockstep::state::Unit const& unit : units())
            for (lockstep::state::Parameter const& p : unit.parameters) {
                auto const values = parameter(p.name);
                all.insert(all.end(), values.begin(), values.end());
            }
        return all;
    }
};

using Maker = std::unique_ptr<Run>(Strategy, lockstep::state::ModelSizes const&, lockstep::comm::Communicator const&, RunOptions const&);

Maker gpt2_fp32, gpt2_fp64, llama_bf16;                  // AdamW
Maker scripted_fp32, scripted_bf16, scripted_bf16_wire;  // Sgd
Maker scripted_adam;                                     // fp16 with Adam
Maker scripted_half_state;                               // fp16 with AdamW, its state in bfloat16

inline std::string Run::save_checkpoint(std::filesystem::path const&, std::function<void()> const&) {
    return "this run has no checkpoints";
}
inline lockstep::io::RunPosition Run::resume(std::filesystem::path const&) { lockstep::input_error("this run has no checkpoints"); }
