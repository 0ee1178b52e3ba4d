#pragma once
// A trainer of any model, precision, optimizer and strategy, so that the loop around the step is compiled once.

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/comm/fwd.hpp"
#include "lockstep/core/exact_sum.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/state/model_sizes.hpp"
#include "lockstep/state/unit.hpp"
#include "lockstep/train/checkpoint_state.hpp"
#include "lockstep/train/step_result.hpp"
#include "settings.hpp"

namespace train_gpt {

struct Evaluated {
    lockstep::ExactSum loss;
    std::uint64_t      valid_tokens = 0;
};

/// Calls one virtual function a step. It answers for its model, masters and strategy too, which import, export and checkpoints ask.
class AnyTrainer {
public:
    virtual ~AnyTrainer() = default;

    virtual lockstep::state::Version version() const                                                = 0;
    virtual lockstep::StepResult     step(lockstep::data::Batch const& batch, double learning_rate) = 0;
    virtual Evaluated                evaluate(lockstep::data::Batch const& batch)                   = 0;
    virtual std::vector<float>       next_token_logits(std::span<std::int32_t const> tokens)        = 0;
    virtual std::size_t              rank() const                                                   = 0;
    virtual std::size_t              ranks() const                                                  = 0;

    virtual lockstep::state::ModelSizes const&        sizes() const                                                      = 0;
    virtual std::vector<lockstep::state::Unit> const& units() const                                                      = 0;
    virtual std::vector<float>                        parameter_values(std::string_view name)                            = 0;
    virtual void assign(std::size_t unit, lockstep::state::Parameter const& parameter, std::span<float const> row_major) = 0;
    virtual void weights_changed()                                                                                       = 0;
    virtual void check_finite()                                                                                          = 0;
    virtual void check_replicas()                                                                                        = 0;
    virtual void look_at_gradients()                                                                                     = 0;
    virtual std::vector<std::uint64_t> gather_values(std::uint64_t value)                                                = 0;
    virtual std::string_view           progress() const                                                                  = 0;

    virtual std::vector<lockstep::StoredPart> stored_parts()                                            = 0;
    virtual lockstep::io::CheckpointFacts     checkpoint_facts()                                        = 0;
    virtual void                              continue_from(lockstep::io::CheckpointFacts const& facts) = 0;
    virtual lockstep::runtime::Threads&       threads()                                                 = 0;

    AnyTrainer const& model() const noexcept { return *this; }
    AnyTrainer&       masters() noexcept { return *this; }
    AnyTrainer&       strategy() noexcept { return *this; }
};

/// The row-major values of a parameter. Collective.
inline std::vector<float> parameter(AnyTrainer& trainer, std::string_view name) { return trainer.parameter_values(name); }

// What checkpoints ask.
inline std::vector<lockstep::StoredPart> stored_parts(AnyTrainer& trainer) { return trainer.stored_parts(); }
inline lockstep::io::CheckpointFacts     checkpoint_facts(AnyTrainer& trainer) { return trainer.checkpoint_facts(); }
inline void continue_from(AnyTrainer& trainer, lockstep::io::CheckpointFacts const& facts) { trainer.continue_from(facts); }

/// Each precision is compiled in a translation unit of its own: both models share its kernels.
using MakeTrainer = std::unique_ptr<AnyTrainer>(Settings const& settings, lockstep::comm::Communicator const& world);
MakeTrainer make_fp32_trainer, make_bf16_trainer, make_fp16_trainer;

}  // namespace train_gpt
