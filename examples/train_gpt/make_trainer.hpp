#pragma once
// Makes the trainer that the settings ask for, in one precision.

#include "adam_family.hpp"
#include "any_trainer.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/nn/gpt2.hpp"
#include "lockstep/nn/llama.hpp"
#include "lockstep/optim/sgd.hpp"
#include "lockstep/parallel/hybrid_sharded.hpp"
#include "lockstep/parallel/replicated.hpp"
#include "lockstep/parallel/sharded_optimizer.hpp"
#include "lockstep/parallel/single.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "lockstep/train/checkpoint_state.hpp"
#include "lockstep/train/inspect.hpp"
#include "lockstep/train/trainer.hpp"
#include "lockstep/train/weights.hpp"

namespace train_gpt {

namespace ls = lockstep;

template <class Trainer>
class TrainerOf final : public AnyTrainer {
public:
    template <class Optimizer>
    TrainerOf(Settings const& s, Optimizer const& optimizer, typename Trainer::Communicator const& communicator)
        : trainer_(s.sizes, optimizer, communicator,
                   {.seed         = s.seed,
                    .micro_batch  = s.micro_batch,
                    .max_norm     = s.clip,
                    .threads      = s.threads,
                    .reproducible = s.reproducible,
                    .model        = {.dropout = s.dropout, .recompute = s.recompute, .unit_blocks = s.unit_blocks},
                    .strategy     = s.parallel}) {}

    ls::state::Version version() const override { return trainer_.version(); }
    ls::StepResult     step(ls::data::Batch const& batch, double learning_rate) override { return trainer_.step(batch, learning_rate); }
    Evaluated          evaluate(ls::data::Batch const& batch) override {
        auto const found = trainer_.evaluate(batch);
        return {found.loss, found.valid_tokens};
    }
    std::vector<float> next_token_logits(std::span<std::int32_t const> tokens) override { return trainer_.next_token_logits(tokens); }
    std::size_t        rank() const override { return trainer_.rank(); }
    std::size_t        ranks() const override { return trainer_.ranks(); }

    ls::state::ModelSizes const&        sizes() const override { return trainer_.model().sizes(); }
    std::vector<ls::state::Unit> const& units() const override { return trainer_.model().units(); }
    std::vector<float>                  parameter_values(std::string_view name) override {
        auto const values = ls::parameter(trainer_, name);
        return {values.begin(), values.end()};
    }
    void assign(std::size_t unit, ls::state::Parameter const& parameter, std::span<float const> row_major) override {
        trainer_.masters().assign(unit, parameter, row_major);
    }
    void                       weights_changed() override { trainer_.weights_changed(); }
    void                       check_finite() override { ls::check_finite(trainer_); }
    void                       check_replicas() override { trainer_.check_replicas(); }
    void                       look_at_gradients() override { trainer_.look_at_gradients(); }
    std::vector<std::uint64_t> gather_values(std::uint64_t value) override { return trainer_.strategy().gather_values(value); }
    std::string_view           progress() const override { return trainer_.strategy().progress(); }

    std::vector<ls::StoredPart> stored_parts() override { return ls::stored_parts(trainer_); }
    ls::io::CheckpointFacts     checkpoint_facts() override { return ls::checkpoint_facts(trainer_); }
    void                        continue_from(ls::io::CheckpointFacts const& facts) override { ls::continue_from(trainer_, facts); }
    ls::runtime::Threads&       threads() override { return trainer_.threads(); }

private:
    Trainer trainer_;
};

/// `sharded` is `hybrid` with one group: a trainer less to compile.
template <class Model, class Precision, class Optimizer>
std::unique_ptr<AnyTrainer> with_strategy(Settings const& s, Optimizer const& optimizer, ls::comm::Communicator const& world) {
    using ls::Trainer;
    switch (s.strategy) {
        case Strategy::replicated:
            return std::make_unique<TrainerOf<Trainer<Model, Precision, Optimizer, ls::parallel::Replicated<>>>>(s, optimizer, world);
        case Strategy::sharded_optimizer:
            return std::make_unique<TrainerOf<Trainer<Model, Precision, Optimizer, ls::parallel::ShardedOptimizer<>>>>(s, optimizer, world);
        case Strategy::sharded:
        case Strategy::hybrid:
            return std::make_unique<TrainerOf<Trainer<Model, Precision, Optimizer, ls::parallel::HybridSharded<>>>>(s, optimizer, world);
        default:
            return std::make_unique<TrainerOf<Trainer<Model, Precision, Optimizer, ls::parallel::Single>>>(s, optimizer,
                                                                                                           ls::parallel::Alone{});
    }
}

template <class Model, class Precision>
std::unique_ptr<AnyTrainer> with_optimizer(Settings const& s, ls::comm::Communicator const& world) {
    if (s.optimizer == Optimizer::sgd)
        return with_strategy<Model, Precision>(s, ls::optim::Sgd{.momentum = s.momentum, .weight_decay = s.weight_decay}, world);
    AdamFamily const adam{.decoupled = s.optimizer == Optimizer::adamw,
                          .adam      = {.beta1 = s.beta1, .beta2 = s.beta2, .epsilon = s.eps, .weight_decay = s.weight_decay},
                          .adamw     = {.beta1 = s.beta1, .beta2 = s.beta2, .epsilon = s.eps, .weight_decay = s.weight_decay}};
    return with_strategy<Model, Precision>(s, adam, world);
}

template <class Precision>
std::unique_ptr<AnyTrainer> make_trainer(Settings const& settings, ls::comm::Communicator const& world) {
    using Storage = ls::tensor::ArenaStorage;
    if (settings.sizes.arch == ls::state::Architecture::gpt2) return with_optimizer<ls::nn::Gpt2<Storage>, Precision>(settings, world);
    return with_optimizer<ls::nn::Llama<Storage>, Precision>(settings, world);
}

}  // namespace train_gpt
