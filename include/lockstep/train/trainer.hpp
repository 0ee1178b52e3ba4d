#pragma once
// The training step. Model, precision, optimizer and strategy meet here, and only here.

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "lockstep/data/batch.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/observe/memory_curve.hpp"
#include "lockstep/optim/clipping.hpp"
#include "lockstep/optim/loss_scale.hpp"
#include "lockstep/parallel/communicator.hpp"
#include "lockstep/parallel/single.hpp"
#include "lockstep/runtime/cores.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/gradient_tree.hpp"
#include "lockstep/train/masters.hpp"
#include "lockstep/train/memory_watch.hpp"
#include "lockstep/train/step_result.hpp"
#include "lockstep/train/step_timing.hpp"
#include "lockstep/train/step_totals.hpp"
#include "lockstep/train/trainer_options.hpp"

namespace lockstep {

/// Takes the parameters from version t to version t + 1, step after step. Legend: N tokens of a micro-step, C channels.
template <class Model, class Precision, class Optimizer, class Strategy>
class Trainer {
    static_assert(precision::precision<Precision>,
                  "lockstep: Precision must name compute, master, reduce and scaling; see lockstep/precision/mixed.hpp");
    static_assert(nn::model<Model, typename Precision::compute>,
                  "lockstep: Model must list its units and run each forward and backward; see lockstep/nn/model.hpp");
    static_assert(optim::optimizer<Optimizer, typename Precision::master>,
                  "lockstep: Optimizer must declare `state_slots` and a const noexcept `update(slice, slots, step)`; see "
                  "lockstep/optim/optimizer.hpp");
    static_assert(parallel::strategy<Strategy, Precision, typename Model::storage>,
                  "lockstep: Strategy must bind to a model's units and acquire, release, reduce, wait, own and publish; see "
                  "lockstep/parallel/strategy.hpp");
    static_assert(!Strategy::shards_parameters || optim::enable_elementwise<Optimizer>,
                  "lockstep: Optimizer must be elementwise to run with a strategy that shards parameters; see enable_elementwise in "
                  "lockstep/optim/optimizer.hpp");

public:
    using Storage       = typename Model::storage;
    using Compute       = typename Precision::compute;
    using Master        = typename Precision::master;
    using Communicator  = typename Strategy::Communicator;
    using BoundStrategy = typename Strategy::template Bound<Precision, Storage>;
    using MasterCopy    = Masters<Precision, Optimizer, Storage>;
    using Scaling       = typename Precision::scaling;

    Trainer(state::ModelSizes const& sizes, Optimizer optimizer, Communicator const& communicator, TrainerOptions const& options = {})
        : options_(completed<Compute>(options)),
          model_(sizes, options_.model),
          optimizer_(std::move(optimizer)),
          threads_(options.threads > 0 ? options.threads : runtime::threads_for(parallel::ranks_on_node(communicator))),
          strategy_(communicator, model_.units(), options_.strategy),
          masters_(model_.units(), owned_parts(), options.groups),
          loss_scale_(options.loss_scale),
          readiness_(model_.units(), strategy_.buckets()),
          tree_(model_.units(), options, comm::wire_of<typename Precision::reduce>, strategy_.ranks()),
          saved_(model_.template make_saved<Compute>()),
          timing_(model_.units().size(), strategy_.rank(), strategy_.ranks()) {
        agree(strategy_, configuration(sizes, options_), "all ranks must have the same");
        agree(strategy_, behaviour_digest<Optimizer, Master>(optimizer_), "optimizer");
        threads_.run([&] { masters_.initialize(options_.seed); });
        weights_changed();
    }

    /// Of a strategy that is alone.
    Trainer(state::ModelSizes const& sizes, Optimizer optimizer, TrainerOptions const& options = {})
        : Trainer(sizes, std::move(optimizer), alone(), options) {}

    /// Refused: a communicator that nobody would use.
    template <parallel::ranks_itself Other>
    Trainer(state::ModelSizes const& sizes, Optimizer optimizer, Other const&,
            TrainerOptions const& options = {}) requires std::same_as<Communicator, parallel::Alone>
        : Trainer(sizes, std::move(optimizer), options) {
        static_assert(sizeof(Other) == 0,
                      "lockstep: Trainer must not be given a communicator where its strategy is Single, which runs on one rank; see "
                      "lockstep/parallel/replicated.hpp for several");
    }

    /// One optimizer step on this rank's sequences of the global batch. Collective.
    StepResult step(data::Batch const& batch, double learning_rate) {
        check(learning_rate);
        accumulate(batch);
        return apply(learning_rate);
    }

    /// Forward and backward of all micro-steps: afterwards the gradients are summed over the batch and over the ranks. Collective.
    void accumulate(data::Batch const& batch) {
        threads_.run([&] {
            auto const book = timing_.book();
            begin_step(batch);
            auto              counts      = totals_.start_counting(strategy_);  // hidden under the first forward
            std::size_t const micro_steps = batch.sequences / micro_batch(batch);
            tree_.restart(micro_steps);
            for (std::size_t m = 0; m < micro_steps; ++m) {
                auto const x = forward(batch, m, parallel::Phase::forward);  // (N,C)
                memory_.end_forward();
                if (m == 0) spend(Event::drain, [&] { counts.wait(); });
                if (totals_.valid_tokens() == 0) break;
                totals_.loss += backward(batch, m, x, m + 1 == micro_steps);
                tree_.add(m, strategy_);
                memory_.end_backward();
            }
            spend(Event::drain, [&] { strategy_.wait(); });
        });
    }

    /// Norm, clipping, one verdict for all ranks, update, publication. Collective.
    StepResult apply(double learning_rate) {
        check(learning_rate);
        return threads_.run([&] {
            auto const book = timing_.book();
            if (totals_.valid_tokens() != 0) spend(Event::norm, [&] { totals_.squares = masters_.gradient_squares(); });
            spend(Event::drain, [&] { totals_.sum(strategy_, learning_rate); });
            auto arrivals = timing_.share(strategy_);  // hidden under the update

            StepResult result = describe_step(learning_rate);
            auto const scale  = spend(Event::clip, [&] { return verdict(result); });
            spend(Event::update, [&] {
                if (result.applied)
                    masters_.update(optimizer_, {version_ + 1, learning_rate, scale});
                else
                    masters_.discard_gradients();
                if (result.skip != Skip::no_valid_tokens) loss_scale_.update(result.applied);
            });
            spend(Event::publish, [&] { strategy_.publish(); });
            version_ += result.applied;
            observe::mark(Event::version, version_);
            if constexpr (asserts(Assertions::communication)) check_replicas();
            spend(Event::drain, [&] { arrivals.wait(); });
            result.version    = version_;
            result.memory     = memory_.end_step();
            result.bytes_sent = strategy_.bytes_sent() - sent_before_;
            timing_.finish(result);
            return result;
        });
    }

    struct Evaluation {
        ExactSum      loss;  // sum over the valid tokens
        std::uint64_t valid_tokens = 0;
    };
    /// Of this rank's sequences, without dropout or gradients. Collective.
    Evaluation evaluate(data::Batch const& batch) {
        check(batch);
        Evaluation result{.loss = {}, .valid_tokens = data::valid_tokens(batch.labels)};
        threads_.run([&] {
            for (std::size_t m = 0; m < batch.sequences / micro_batch(batch); ++m) result.loss += evaluated_loss(batch, m);
            strategy_.wait();
        });
        return result;
    }

    /// Logits of the token that follows a sequence of 1 to T tokens. Collective.
    std::vector<float> next_token_logits(std::span<std::int32_t const> tokens) {
        require(!tokens.empty() && tokens.size() <= model_.sizes().sequence, "Trainer: expected 1 to ", model_.sizes().sequence,
                " tokens to continue, found ", tokens.size());
        return threads_.run([&] {
            data::Batch const batch{.sequences = 1, .length = tokens.size(), .first_sample = 0, .tokens = tokens, .labels = {}};
            auto const        x      = forward(batch, 0, parallel::Phase::evaluate);  // (N,C)
            auto const        logits = with_unit(root, parallel::Phase::evaluate, batch, 0,
                                                 [&](Pass& pass) { return model_.logits(pass, x.rows(tokens.size() - 1, tokens.size())); });
            strategy_.wait();
            saved_         = model_.template make_saved<Compute>();  // what an earlier step saved is gone
            auto const row = logits.row(0);
            return std::vector<float>(row.begin(), row.end());
        });
    }

    /// To be called after masters were written from outside: rounds and publishes them, and checks that all ranks hold the same.
    /// Collective.
    void weights_changed() {
        threads_.run([&] { masters_.write_weights(); });
        strategy_.publish();
        check_replicas();
    }

    /// Raises an error that names the rank whose version or parameters differ from the others'. Collective.
    void check_replicas() {
        agree(strategy_, version_, "version of the parameters");
        if (strategy_.shards() < ranks()) agree(strategy_, masters_.checksum(), "checksum of the parameters", strategy_.shards());
    }

    /// To be called before `weights_changed` where the masters and the optimizer's state are those of another trainer.
    void continue_from(state::Version version, optim::LossScaleState scale) noexcept { version_ = version, loss_scale_.restore(scale); }
    optim::LossScaleState loss_scale_state() const noexcept { return loss_scale_.state(); }
    TrainerOptions const& options() const noexcept { return options_; }
    runtime::Threads&     threads() noexcept { return threads_; }

    state::Version version() const noexcept { return version_; }
    double         loss_scale() const noexcept { return loss_scale_.scale(); }
    std::size_t    rank() const noexcept { return strategy_.rank(); }
    std::size_t    ranks() const noexcept { return strategy_.ranks(); }

    Model const&                                   model() const noexcept { return model_; }
    typename Model::template Saved<Compute> const& saved() const noexcept { return saved_; }
    BoundStrategy&                                 strategy() noexcept { return strategy_; }
    MasterCopy&                                    masters() noexcept { return masters_; }

private:
    using Pass  = nn::Pass<Compute, Storage>;
    using Event = observe::Event;

    static constexpr std::size_t root = 0;  // unit 0; block l is unit 1 + l

    static Communicator alone() {
        static_assert(std::same_as<Communicator, parallel::Alone>,
                      "lockstep: Trainer must be given the communicator of its ranks behind the optimizer, as mpi.world(); see "
                      "lockstep/comm/environment.hpp");
        if constexpr (std::same_as<Communicator, parallel::Alone>) return {};
    }

    /// The loss of micro-step m, summed over its valid tokens.
    ExactSum evaluated_loss(data::Batch const& batch, std::size_t m) {
        constexpr auto phase = parallel::Phase::evaluate;
        auto const     x     = forward(batch, m, phase);  // (N,C)
        return with_unit(root, phase, batch, m, [&](Pass& pass) { return model_.loss(pass, x, rows(batch.labels, batch, m), saved_); });
    }

    /// Embedding and blocks of micro-step m.
    auto forward(data::Batch const& batch, std::size_t m, parallel::Phase phase) {
        workspace_.rewind({});
        auto x = with_unit(root, phase, batch, m,
                           [&](Pass& pass) { return model_.embed(pass, rows(batch.tokens, batch, m), saved_); });  // (N,C)
        for (std::size_t layer = 0; layer < layers(); ++layer)
            x = with_unit(1 + layer, phase, batch, m, [&](Pass& pass) { return model_.block(layer, pass, x, saved_); });  // (N,C)
        return x;
    }

    /// From what forward made: the loss, summed over the valid tokens of micro-step m, and all gradients.
    ExactSum backward(data::Batch const& batch, std::size_t m, tensor::View<Compute, 2> x, bool last) {  // (N,C)
        constexpr auto phase = parallel::Phase::backward;
        reducing_            = last || strategy_.reduces_each_micro_step();
        readiness_.restart();
        auto const mark  = workspace_.mark();
        auto const scale = static_cast<precision::accumulator<Compute>>(loss_scale_.scale() / static_cast<double>(totals_.valid_tokens()));

        ExactSum loss;
        auto     dx = with_unit(root, phase, batch, m, [&](Pass& pass) {
            return model_.loss_backward(pass, x, rows(batch.labels, batch, m), scale, saved_, loss);
        });  // (N,C)
        dx          = workspace_.keep(mark, dx);
        for (std::size_t layer = layers(); layer-- > 0;) {
            dx =
                with_unit(1 + layer, phase, batch, m, [&](Pass& pass) { return model_.block_backward(layer, pass, dx, saved_); });  // (N,C)
            dx = workspace_.keep(mark, dx);
        }
        with_unit(root, phase, batch, m, [&](Pass& pass) { model_.embed_backward(pass, dx, saved_); });
        return loss;
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
        pass.sink         = {this, [](void* self, std::size_t u, nn::ParameterIndex p) { static_cast<Trainer*>(self)->contributed(u, p); }};

        spend(Event::acquire, unit, m, [&] {
            parallel::Weights<Compute> const weights = strategy_.acquire(unit, phase);

            pass.weights        = weights.forward;
            pass.weights_paired = weights.input_grad;
            if (phase == parallel::Phase::backward) pass.gradients = strategy_.gradients(unit);
        });
        struct Leave {
            Trainer&        trainer;
            std::size_t     unit;
            parallel::Phase phase;
            ~Leave() {
                trainer.memory_curve_.sample(trainer.workspace_);
                trainer.strategy_.release(unit, phase);
            }
        } leave{*this, unit, phase};
        return spend(phase == parallel::Phase::backward ? Event::backward : Event::forward, unit, m, [&] { return body(pass); });
    }

    /// A module has added its gradient of a parameter; the bucket that this completes starts to travel.
    void contributed(std::size_t unit, nn::ParameterIndex parameter) {
        if (!reducing_) return;
        auto const bucket = readiness_.contributed(unit, parameter);
        if (!bucket) return;
        tree_.finish(*bucket, strategy_);
        observe::mark(Event::bucket_ready, *bucket);
        spend(Event::submit, *bucket, 0, [&] { strategy_.reduce(*bucket); });
    }

    void check(data::Batch const& batch) const {
        require(batch.sequences > 0 && batch.sequences % micro_batch(batch) == 0, "Trainer: a step brings ", batch.sequences,
                " sequences to rank ", rank(), ", expected a multiple of the micro-batch ", micro_batch(batch));
        require(batch.length > 0 && batch.length <= model_.sizes().sequence, "Trainer: sequences have ", batch.length,
                " tokens, the model takes 1 to ", model_.sizes().sequence);
        require(batch.tokens.size() == batch.sequences * batch.length && batch.labels.size() == batch.tokens.size(), "Trainer: a batch of ",
                batch.sequences, " x ", batch.length, " has ", batch.tokens.size(), " tokens and ", batch.labels.size(), " labels");
    }

    static void check(double learning_rate) {
        if (!(learning_rate >= 0 && learning_rate <= static_cast<double>(std::numeric_limits<Master>::max())))
            input_error("learning rate: expected finite and >= 0, found ", learning_rate);
    }

    void begin_step(data::Batch const& batch) {
        check(batch);
        if (!began_) check_shares(strategy_, batch, batch.sequences / micro_batch(batch));
        began_ = true;
        timing_.restart();
        memory_.restart();
        totals_.restart(batch);
        sent_before_ = strategy_.bytes_sent();
    }

    /// One for all ranks: whether the step is applied. Returns what gradients are multiplied by.
    double verdict(StepResult& result) const {
        auto const clip      = optim::clip(totals_.raw_norm(), loss_scale_.scale(), options_.max_norm);
        result.gradient_norm = clip.norm;
        if (result.valid_tokens == 0)
            result.skip = Skip::no_valid_tokens;
        else if (!std::isfinite(result.loss) || !clip.gradient_scale)
            result.skip = Skip::nonfinite;
        result.applied = result.skip == Skip::no;
        return clip.gradient_scale.value_or(0);
    }

    StepResult describe_step(double learning_rate) const {
        StepResult result;
        result.loss          = totals_.mean_loss();
        result.learning_rate = learning_rate;
        result.tokens        = totals_.tokens();
        result.valid_tokens  = totals_.valid_tokens();
        result.loss_scale    = loss_scale_.scale();
        return result;
    }

    /// Runs the body as an event of the timeline, which is booked as what `activity_of` says.
    template <class Body>
    decltype(auto) spend(observe::Event event, std::size_t index, std::size_t part, Body&& body) {
        observe::Span const span(event, index, part);
        return body();
    }
    template <class Body>
    decltype(auto) spend(observe::Event event, Body&& body) {
        return spend(event, 0, 0, std::forward<Body>(body));
    }

    std::vector<typename MasterCopy::Owned> owned_parts() {
        std::vector<typename MasterCopy::Owned> parts;
        for (std::size_t u = 0; u < model_.units().size(); ++u) parts.push_back(strategy_.owned(u));
        return parts;
    }

    std::size_t layers() const noexcept { return model_.units().size() - 1; }
    std::size_t micro_batch(data::Batch const& batch) const noexcept {
        return options_.micro_batch == 0 ? batch.sequences : std::min(options_.micro_batch, batch.sequences);
    }
    std::span<std::int32_t const> rows(std::span<std::int32_t const> all, data::Batch const& batch, std::size_t m) const {
        std::size_t const count = micro_batch(batch) * batch.length;
        return all.subspan(m * count, count);
    }

    TrainerOptions                          options_;
    Model                                   model_;
    Optimizer                               optimizer_;
    runtime::Threads                        threads_;
    BoundStrategy                           strategy_;
    MasterCopy                              masters_;
    optim::LossScale<Precision>             loss_scale_;
    state::Readiness                        readiness_;
    GradientTree<Master, Storage>           tree_;
    typename Storage::Workspace             workspace_;
    typename Model::template Saved<Compute> saved_;

    state::Version       version_ = 0;
    StepTotals           totals_;
    StepTiming           timing_;
    MemoryWatch          memory_;
    observe::MemoryCurve memory_curve_;
    std::uint64_t        sent_before_ = 0;
    bool                 reducing_    = false;  // whether the present micro-step's gradients travel
    bool                 began_       = false;  // the first step
};

}  // namespace lockstep
