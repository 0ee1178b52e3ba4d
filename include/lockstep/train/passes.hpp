#pragma once
// Forward and backward through all units of a model, one after another, each with its parameters at hand: for training, evaluation and
// sampling. What a unit gets to see is an nn::Pass.

#include <algorithm>
#include <span>
#include <vector>

#include "lockstep/core/exact_sum.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/observe/memory_curve.hpp"
#include "lockstep/parallel/strategy.hpp"
#include "lockstep/state/bucket.hpp"
#include "lockstep/state/version.hpp"
#include "lockstep/train/gradient_tree.hpp"
#include "lockstep/train/nonfinite.hpp"
#include "lockstep/train/trainer_options.hpp"

namespace lockstep {

/// Acquires, releases and reduces, which a trainer leaves to it. Knows no optimizer: trainers that differ only in it share this code.
/// Legend: N tokens of a micro-step, C channels.
template <class Model, class Precision, class Strategy>
class Passes {
public:
    using Storage       = typename Model::storage;
    using Compute       = typename Precision::compute;
    using Master        = typename Precision::master;
    using BoundStrategy = typename Strategy::template Bound<Precision, Storage>;
    using Saved         = typename Model::template Saved<Compute>;
    using Factor        = precision::accumulator<Compute>;

    /// What is given must live as long, and stay where it is.
    Passes(Model const& model, BoundStrategy& strategy, TrainerOptions const& options)
        : model_(model),
          strategy_(strategy),
          options_(options),
          readiness_(model.units(), strategy.buckets()),
          tree_(model.units(), options, comm::wire_of<typename Precision::reduce>, strategy.ranks()),
          saved_(model.template make_saved<Compute>()) {}
    Passes(Passes const&)            = delete;
    Passes& operator=(Passes const&) = delete;

    std::size_t micro_batch(data::Batch const& batch) const noexcept {
        return options_.micro_batch == 0 ? batch.sequences : std::min(options_.micro_batch, batch.sequences);
    }
    std::size_t micro_steps(data::Batch const& batch) const noexcept { return batch.sequences / micro_batch(batch); }

    /// Before the first micro-step of a step that leads away from `version`. `looks`: at each gradient, whether it is finite.
    void restart(data::Batch const& batch, state::Version version, bool looks = false) {
        version_         = version;
        looks_           = looks;
        contributions_   = 0;
        first_nonfinite_ = NonFinite::key(NonFinite::In::nothing);
        tree_.restart(micro_steps(batch));
    }

    /// Embedding and blocks of micro-step m.
    tensor::View<Compute, 2> forward(data::Batch const& batch, std::size_t m, parallel::Phase phase = parallel::Phase::forward) {  // (N,C)
        workspace_.rewind({});
        auto x = with_unit(root, phase, batch, m,
                           [&](Pass& pass) { return blocks(pass, model_.embed(pass, rows(batch.tokens, batch, m), saved_)); });  // (N,C)
        for (std::size_t unit = 1; unit < units(); ++unit)
            x = with_unit(unit, phase, batch, m, [&](Pass& pass) { return blocks(pass, x); });  // (N,C)
        return x;
    }

    /// From what forward made: the loss, summed over the valid tokens of micro-step m, and the gradients of `factor` times it. They start
    /// to travel as soon as their bucket is complete: in the last micro-step, or in each where they add up in shards. The root comes first,
    /// for the head, and last, for the embedding.
    ExactSum backward(data::Batch const& batch, std::size_t m, tensor::View<Compute, 2> x, Factor factor) {  // (N,C)
        constexpr auto phase = parallel::Phase::backward;
        reducing_            = m + 1 == micro_steps(batch) || strategy_.reduces_each_micro_step();
        readiness_.restart();
        auto const mark = workspace_.mark();

        ExactSum loss;
        auto     dx = with_unit(root, phase, batch, m, [&](Pass& pass) {
            auto const first = model_.loss_backward(pass, x, rows(batch.labels, batch, m), factor, saved_, loss);  // (N,C)
            return blocks_backward(pass, keep(mark, first), mark);
        });  // (N,C)
        for (std::size_t unit = units(); unit-- > 1;)
            dx = with_unit(unit, phase, batch, m, [&](Pass& pass) { return blocks_backward(pass, dx, mark); });  // (N,C)
        with_unit(root, phase, batch, m, [&](Pass& pass) { model_.embed_backward(pass, dx, saved_); });
        tree_.add(m, strategy_);  // does nothing but with TrainerOptions::reproducible
        return loss;
    }

    /// The loss of micro-step m, summed over its valid tokens, without dropout or gradients.
    ExactSum loss(data::Batch const& batch, std::size_t m) {
        constexpr auto phase = parallel::Phase::evaluate;
        auto const     x     = forward(batch, m, phase);  // (N,C)
        return with_unit(root, phase, batch, m, [&](Pass& pass) { return model_.loss(pass, x, rows(batch.labels, batch, m), saved_); });
    }

    /// Logits of the token that follows the sequence of a batch of one.
    std::vector<float> next_token_logits(data::Batch const& batch) {
        constexpr auto phase  = parallel::Phase::evaluate;
        auto const     x      = forward(batch, 0, phase);  // (N,C)
        auto const     last   = x.rows(batch.length - 1, batch.length);
        auto const     logits = with_unit(root, phase, batch, 0, [&](Pass& pass) { return model_.logits(pass, last); });
        saved_                = model_.template make_saved<Compute>();  // what an earlier step saved is gone
        auto const row        = logits.row(0);
        return {row.begin(), row.end()};
    }

    /// The key of the first gradient of this rank that was not finite, where `restart` was told to look.
    std::uint64_t first_nonfinite() const noexcept { return first_nonfinite_; }

    /// Of the activations, since this was last asked.
    observe::ArenaUse take_arena_use() noexcept { return memory_curve_.take_use(); }

    Saved const& saved() const noexcept { return saved_; }

private:
    using Pass  = nn::Pass<Compute, Storage>;
    using Event = observe::Event;

    static constexpr std::size_t root = 0;  // of the units; it may hold blocks too

    /// The blocks of the unit that a pass has at hand.
    tensor::View<Compute, 2> blocks(Pass& pass, tensor::View<Compute, 2> x) {  // (N,C)
        Range const layers = nn::blocks_of(model_, pass.index);
        for (std::size_t layer = layers.begin; layer < layers.end; ++layer) x = model_.block(layer, pass, x, saved_);
        return x;
    }
    /// Of what they make nothing stays behind the mark but the result.
    template <class Mark>
    tensor::View<Compute, 2> blocks_backward(Pass& pass, tensor::View<Compute, 2> dx, Mark mark) {  // (N,C)
        Range const layers = nn::blocks_of(model_, pass.index);
        for (std::size_t layer = layers.end; layer-- > layers.begin;) dx = keep(mark, model_.block_backward(layer, pass, dx, saved_));
        return dx;
    }
    template <class Mark>
    tensor::View<Compute, 2> keep(Mark mark, tensor::View<Compute, 2> dx) {  // (N,C)
        memory_curve_.sample(workspace_);                                    // the most that what made dx has taken
        return workspace_.keep(mark, dx);
    }

    /// Acquires a unit, runs part of the model with it, releases it.
    template <class Body>
    auto with_unit(std::size_t unit, parallel::Phase phase, data::Batch const& batch, std::size_t m, Body const& body) {
        Pass pass;
        pass.workspace    = &workspace_;
        pass.unit         = &model_.units()[unit];
        pass.index        = unit;
        pass.batch        = micro_batch(batch);
        pass.sequence     = batch.length;
        pass.training     = phase != parallel::Phase::evaluate;
        pass.seed         = options_.seed;
        pass.version      = version_;
        pass.first_sample = batch.first_sample + m * micro_batch(batch);
        pass.sink         = {this, [](void* self, std::size_t u, nn::ParameterIndex p) { static_cast<Passes*>(self)->contributed(u, p); }};
        {
            observe::Span const              span(Event::acquire, unit, m);
            parallel::Weights<Compute> const weights = strategy_.acquire(unit, phase);

            pass.weights        = weights.forward;
            pass.weights_paired = weights.input_grad;
            if (phase == parallel::Phase::backward) pass.gradients = strategy_.gradients(unit);
        }
        struct Leave {
            Passes&         passes;
            std::size_t     unit;
            parallel::Phase phase;
            ~Leave() {
                passes.memory_curve_.sample(passes.workspace_);
                passes.strategy_.release(unit, phase);
            }
        } leave{*this, unit, phase};
        observe::Span const span(phase == parallel::Phase::backward ? Event::backward : Event::forward, unit, m);
        return body(pass);
    }

    /// A module has added its gradient of a parameter; the bucket that this completes starts to travel.
    void contributed(std::size_t unit, nn::ParameterIndex parameter) {
        if (looks_) look_at(unit, parameter);
        if (!reducing_) return;
        auto const bucket = readiness_.contributed(unit, parameter);
        if (!bucket) return;
        tree_.finish(*bucket, strategy_);
        observe::mark(Event::bucket_ready, *bucket);
        observe::Span const span(Event::submit, *bucket);
        strategy_.reduce(*bucket);
    }

    void look_at(std::size_t unit, nn::ParameterIndex parameter) {
        Range const range = model_.units()[unit].parameters[parameter].range();
        if (!all_finite(std::span<Master const>(strategy_.gradients(unit).subspan(range.begin, range.size()))))
            first_nonfinite_ = std::min(first_nonfinite_, NonFinite::key(NonFinite::In::gradient, contributions_, unit, parameter));
        ++contributions_;
    }

    std::size_t                   units() const noexcept { return model_.units().size(); }
    std::span<std::int32_t const> rows(std::span<std::int32_t const> all, data::Batch const& batch, std::size_t m) const {
        std::size_t const count = micro_batch(batch) * batch.length;
        return all.subspan(m * count, count);
    }

    Model const&                  model_;
    BoundStrategy&                strategy_;
    TrainerOptions const&         options_;
    state::Readiness              readiness_;
    GradientTree<Master, Storage> tree_;
    typename Storage::Workspace   workspace_;
    Saved                         saved_;
    observe::MemoryCurve          memory_curve_;
    state::Version                version_         = 0;
    bool                          reducing_        = false;  // whether the present micro-step's gradients travel
    bool                          looks_           = false;  // at each gradient
    std::size_t                   contributions_   = 0;
    std::uint64_t                 first_nonfinite_ = NonFinite::key(NonFinite::In::nothing);
};

}  // namespace lockstep
