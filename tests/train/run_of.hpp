#pragma once
#include <bit>
#include <type_traits>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/parallel/hybrid_sharded.hpp"
#include "lockstep/parallel/replicated.hpp"
#include "lockstep/parallel/sharded_optimizer.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "lockstep/train/inspect.hpp"
#include "lockstep/train/trainer.hpp"
#include "run.hpp"

template <class Trainer>
class RunOf : public Run {
    using Master = typename Trainer::Master;

public:
    template <class Optimizer>
    RunOf(lockstep::state::ModelSizes const& sizes, Optimizer const& optimizer, typename Trainer::Communicator const& communicator,
          RunOptions const& o)
        : trainer_(sizes, optimizer, communicator,
                   {.seed         = o.seed,
                    .micro_batch  = o.micro_batch,
                    .max_norm     = o.max_norm,
                    .threads      = o.threads,
                    .reproducible = o.reproducible,
                    .model        = o.model,
                    .strategy     = o.strategy,
                    .loss_scale   = o.loss_scale}) {}

    lockstep::StepResult step(lockstep::data::Batch const& batch, double learning_rate) override {
        return trainer_.step(batch, learning_rate);
    }
    void                     accumulate(lockstep::data::Batch const& batch) override { trainer_.accumulate(batch); }
    lockstep::StepResult     apply(double learning_rate) override { return trainer_.apply(learning_rate); }
    double                   loss(lockstep::data::Batch const& batch) override { return trainer_.evaluate(batch).loss.value(); }
    lockstep::state::Version version() const override { return trainer_.version(); }
    double                   loss_scale() const override { return trainer_.loss_scale(); }
    void                     check_replicas() override { trainer_.check_replicas(); }
    void                     look_at_gradients() override { trainer_.look_at_gradients(); }
    std::uint64_t            bytes_sent() override { return trainer_.strategy().bytes_sent(); }
    std::vector<lockstep::state::Unit> const& units() const override { return trainer_.model().units(); }
    std::vector<std::size_t>                  owned_elements() override {
        std::vector<std::size_t> counts;
        for (std::size_t u = 0; u < units().size(); ++u) counts.push_back(trainer_.strategy().owned(u).range.size());
        return counts;
    }

    std::vector<double>      parameter(std::string_view name) override { return values(lockstep::parameter(trainer_, name)); }
    std::vector<double>      gradient(std::string_view name) override { return values(lockstep::gradient(trainer_, name)); }
    std::vector<double>      activation(std::string_view name) override { return values(lockstep::activation(trainer_, name)); }
    std::vector<std::string> activations() override {
        std::vector<std::string> names;
        lockstep::for_each_activation(trainer_, [&](std::string const& name, auto const&) { names.push_back(name); });
        return names;
    }

    void assign(std::function<double(lockstep::state::Parameter const&, std::size_t)> const& value) override {
        for (std::size_t u = 0; u < units().size(); ++u) {
            auto const range = trainer_.strategy().owned(u).range;
            for (lockstep::state::Parameter const& p : units()[u].parameters)
                for (std::size_t e = 0; e < p.elements(); ++e)
                    if (std::size_t const at = p.offset + p.map(e / p.columns, e % p.columns); at >= range.begin && at < range.end)
                        trainer_.masters().values(u)[at - range.begin] = static_cast<Master>(value(p, e));
        }
        trainer_.weights_changed();
    }

    void flip_bit() override {
        using Bits     = std::conditional_t<sizeof(Master) == 8, std::uint64_t, std::uint32_t>;
        Master& master = trainer_.masters().values(0)[0];
        master         = std::bit_cast<Master>(std::bit_cast<Bits>(master) ^ Bits{1});
    }

    std::vector<float> next_token_logits(std::span<std::int32_t const>) override { lockstep::input_error("this run has no logits"); }
    void               load(std::filesystem::path const&) override { lockstep::input_error("this run has no files"); }
    void               save(std::filesystem::path const&) override { lockstep::input_error("this run has no files"); }

protected:
    template <class Array>
    static std::vector<double> values(Array const& array) {
        return std::vector<double>(array.begin(), array.end());
    }

    Trainer trainer_;
};

/// `sharded` is `hybrid` with one group: a trainer less to compile.
template <class Model, class Precision, class Optimizer, template <class> class Kind = RunOf>
std::unique_ptr<Run> make_run(Strategy strategy, lockstep::state::ModelSizes const& sizes, lockstep::comm::Communicator const& world,
                              RunOptions options, Optimizer const& optimizer) {
    using namespace lockstep::parallel;
    std::size_t& group = options.strategy.shard_group;
    if (strategy == Strategy::hybrid && group == 0) group = world.size() % 2 == 0 ? static_cast<std::size_t>(world.size()) / 2 : 1;
    if (strategy == Strategy::sharded) group = 0;
    switch (strategy) {
        case Strategy::replicated:
            return std::make_unique<Kind<lockstep::Trainer<Model, Precision, Optimizer, Replicated<>>>>(sizes, optimizer, world, options);
        case Strategy::sharded_optimizer:
            return std::make_unique<Kind<lockstep::Trainer<Model, Precision, Optimizer, ShardedOptimizer<>>>>(sizes, optimizer, world,
                                                                                                              options);
        case Strategy::sharded:
        case Strategy::hybrid:
            return std::make_unique<Kind<lockstep::Trainer<Model, Precision, Optimizer, HybridSharded<>>>>(sizes, optimizer, world,
                                                                                                           options);
        default:
            return std::make_unique<Kind<lockstep::Trainer<Model, Precision, Optimizer, Single>>>(sizes, optimizer, Alone{}, options);
    }
}
