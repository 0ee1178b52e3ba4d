#pragma once
// The training step. Model, precision, optimizer and strategy meet here; how the passes acquire, release and reduce is in passes.hpp.

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "lockstep/data/batch.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/optim/clipping.hpp"
#include "lockstep/optim/loss_scale.hpp"
#include "lockstep/parallel/communicator.hpp"
#include "lockstep/parallel/single.hpp"
#include "lockstep/runtime/cores.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/masters.hpp"
#include "lockstep/train/memory_watch.hpp"
#include "lockstep/train/passes.hpp"
#include "lockstep/train/step_result.hpp"
#include "lockstep/train/step_timing.hpp"
#include "lockstep/train/step_totals.hpp"
#include "lockstep/train/trainer_options.hpp"

namespace lockstep {

/// Takes the parameters from version t to version t + 1, step after step.
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
    using StepPasses    = Passes<Model, Precision, Strategy>;
    using BoundStrategy = typename StepPasses::BoundStrategy;
    using MasterCopy    = Masters<Precision, Optimizer, Storage>;
    using Scaling       = typename Precision::scaling;

    /// Initial weights, from the seed, at version 0. Sizes, options and optimizer must be the same on all ranks: otherwise all of them
    /// raise an input error that names what differs. Collective.
    Trainer(state::ModelSizes const& sizes, Optimizer optimizer, Communicator const& communicator, TrainerOptions const& options = {})
        : options_(completed<Compute>(options)),
          model_(sizes, options_.model),
          optimizer_(std::move(optimizer)),
          threads_(options.threads > 0 ? options.threads : runtime::threads_for(parallel::ranks_on_node(communicator))),
          strategy_(communicator, model_.units(), options_.strategy),
          masters_(model_.units(), owned_parts(), options.groups),
          loss_scale_(options.loss_scale),
          passes_(model_, strategy_, options_),
          timing_(model_.units().size(), strategy_.rank(), strategy_.ranks(), parallel::gathered_among(strategy_)) {
        agree(strategy_, configuration(sizes, options_), "all ranks must have the same");
        agree(strategy_, behaviour_digest<Optimizer, Master>(optimizer_), "optimizer");
        threads_.run([&] { masters_.initialize(options_.seed); });
        weights_changed();
        observe::track().begin_version(version_);
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
        check(batch);
        expect(Stage::ready);
        threads_.run([&] {
            auto const book = timing_.book();
            begin_step(batch);
            auto counts = totals_.start_counting(strategy_);  // hidden under the first forward
            for (std::size_t m = 0; m < passes_.micro_steps(batch); ++m) {
                auto const x = passes_.forward(batch, m);  // (N,C): tokens of a micro-step, channels
                memory_.end_forward(passes_.take_arena_use());
                if (m == 0) spend(Event::drain, [&] { counts.wait(); });
                if (totals_.valid_tokens() == 0) break;
                totals_.loss += passes_.backward(batch, m, x, loss_factor());
                memory_.end_backward(passes_.take_arena_use());
                timing_.keep_up();
            }
            spend(Event::drain, [&] { strategy_.wait(); });
        });
        stage_ = Stage::accumulated;
    }

    /// Norm, clipping, one verdict for all ranks, update, publication. Collective.
    StepResult apply(double learning_rate) {
        check(learning_rate);
        expect(Stage::accumulated);
        return threads_.run([&] {
            auto const book = timing_.book();
            if (totals_.valid_tokens() != 0) spend(Event::norm, [&] { totals_.squares = masters_.gradient_squares(); });
            spend(Event::drain, [&] { totals_.sum(strategy_, learning_rate); });
            auto arrivals = timing_.share(strategy_);  // hidden under the update

            StepResult result = describe_step(learning_rate);
            auto const scale  = spend(Event::clip, [&] { return verdict(result); });
            looks_            = result.skip == Skip::nonfinite;
            if (looks_) spend(Event::drain, [&] { result.nonfinite = first_nonfinite(); });
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
            stage_ = Stage::ready;
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
            for (std::size_t m = 0; m < passes_.micro_steps(batch); ++m) result.loss += passes_.loss(batch, m);
            strategy_.wait();
        });
        return result;
    }

    /// Logits of the token that follows a sequence of 1 to T tokens. Collective.
    std::vector<float> next_token_logits(std::span<std::int32_t const> tokens) {
        require(!tokens.empty() && tokens.size() <= model_.sizes().sequence, "Trainer: expected 1 to ", model_.sizes().sequence,
                " tokens to continue, found ", tokens.size());
        return threads_.run([&] {
            auto logits =
                passes_.next_token_logits({.sequences = 1, .length = tokens.size(), .first_sample = 0, .tokens = tokens, .labels = {}});
            strategy_.wait();
            return logits;
        });
    }

    /// To be called after masters were written from outside: rounds and publishes them, and checks that all ranks hold the same.
    /// Collective.
    void weights_changed() {
        threads_.run([&] { masters_.write_weights(); });
        strategy_.publish();
        check_replicas();
    }

    /// Raises an error that names the rank whose version or parameters differ from the others'. Where each parameter has one master, in the
    /// shard of one rank, there is nothing to compare: what others have of it they gather anew in each step. Collective.
    void check_replicas() {
        agree(strategy_, version_, "version of the parameters");
        if (strategy_.shards() == ranks()) return;
        std::uint64_t const checksum = threads_.run([&] { return masters_.checksum(); });
        agree(strategy_, checksum, "checksum of the parameters", strategy_.shards());
    }

    /// In the next step each gradient is looked at before it is summed, as in the step behind one that was skipped: should it be skipped,
    /// the result names the rank.
    void look_at_gradients() noexcept { looks_ = true; }

    /// To be called before `weights_changed` where the masters and the optimizer's state are those of another trainer.
    void continue_from(state::Version version, optim::LossScaleState scale) noexcept {
        version_ = version;
        observe::track().begin_version(version_);
        loss_scale_.restore(scale);
    }
    optim::LossScaleState loss_scale_state() const noexcept { return loss_scale_.state(); }
    TrainerOptions const& options() const noexcept { return options_; }
    runtime::Threads&     threads() noexcept { return threads_; }

    state::Version version() const noexcept { return version_; }
    double         loss_scale() const noexcept { return loss_scale_.scale(); }
    std::size_t    rank() const noexcept { return strategy_.rank(); }
    std::size_t    ranks() const noexcept { return strategy_.ranks(); }

    Model const&                      model() const noexcept { return model_; }
    typename StepPasses::Saved const& saved() const noexcept { return passes_.saved(); }
    BoundStrategy&                    strategy() noexcept { return strategy_; }
    BoundStrategy const&              strategy() const noexcept { return strategy_; }
    MasterCopy&                       masters() noexcept { return masters_; }

private:
    using Event = observe::Event;

    enum class Stage { ready, accumulated, broken };  // broken: in a step, or ended by an error

    static Communicator alone() {
        static_assert(std::same_as<Communicator, parallel::Alone>,
                      "lockstep: Trainer must be given the communicator of its ranks behind the optimizer, as mpi.world(); see "
                      "lockstep/comm/environment.hpp");
        if constexpr (std::same_as<Communicator, parallel::Alone>) return {};
    }

    void check(data::Batch const& batch) const {
        require(batch.sequences > 0, "Trainer: a step brings no sequences to rank ", rank(), ", expected at least 1");
        require(batch.sequences % passes_.micro_batch(batch) == 0, "Trainer: a step brings ", batch.sequences, " sequences to rank ",
                rank(), ", expected a multiple of the micro-batch ", passes_.micro_batch(batch));
        require(batch.length > 0 && batch.length <= model_.sizes().sequence, "Trainer: sequences have ", batch.length,
                " tokens, the model takes 1 to ", model_.sizes().sequence);
        require(batch.tokens.size() == batch.sequences * batch.length && batch.labels.size() == batch.tokens.size(), "Trainer: a batch of ",
                batch.sequences, " x ", batch.length, " has ", batch.tokens.size(), " tokens and ", batch.labels.size(), " labels");
    }

    static void check(double learning_rate) {
        if (!(learning_rate >= 0 && learning_rate <= static_cast<double>(std::numeric_limits<Master>::max())))
            input_error("learning rate: expected finite and >= 0, found ", learning_rate);
    }

    /// A step that an error has ended leaves gradients behind, and other ranks perhaps elsewhere: no other one may follow it.
    void expect(Stage stage) {
        require(stage_ != Stage::broken, "Trainer: expected no step after one that has ended with an error, found another one on rank ",
                rank(), ": continue from a checkpoint, with a new trainer");
        require(stage_ == stage, stage == Stage::ready ? "Trainer: expected apply between two calls of accumulate, found none"
                                                       : "Trainer: expected accumulate before apply, found none");
        stage_ = Stage::broken;  // until it is over
    }

    void begin_step(data::Batch const& batch) {
        if (!began_) check_shares(strategy_, batch, passes_.micro_steps(batch));
        began_ = true;
        timing_.restart();
        memory_.restart();
        totals_.restart(batch);
        passes_.restart(batch, version_, looks_);
        sent_before_ = strategy_.bytes_sent();
    }

    /// From the sum over tokens to the loss that is differentiated: the mean over the valid tokens of all ranks, times the loss scale.
    typename StepPasses::Factor loss_factor() const noexcept {
        return static_cast<typename StepPasses::Factor>(loss_scale_.scale() / static_cast<double>(totals_.valid_tokens()));
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

    /// Of all ranks, by what each has seen. Collective.
    NonFinite first_nonfinite() {
        std::fill(nonfinite_.begin(), nonfinite_.end(), 0);
        std::uint64_t const own = totals_.own_loss_finite() ? std::min(passes_.first_nonfinite(), masters_.first_nonfinite())
                                                            : NonFinite::key(NonFinite::In::loss);
        nonfinite_[rank()]      = static_cast<std::int64_t>(own);
        strategy_.start_sum(nonfinite_).wait();
        return NonFinite::least(nonfinite_);
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
    decltype(auto) spend(Event event, Body&& body) {
        observe::Span const span(event);
        return body();
    }

    std::vector<typename MasterCopy::Owned> owned_parts() {
        std::vector<typename MasterCopy::Owned> parts;
        for (std::size_t u = 0; u < model_.units().size(); ++u) parts.push_back(strategy_.owned(u));
        return parts;
    }

    TrainerOptions              options_;
    Model                       model_;
    Optimizer                   optimizer_;
    runtime::Threads            threads_;
    BoundStrategy               strategy_;
    MasterCopy                  masters_;
    optim::LossScale<Precision> loss_scale_;
    StepPasses                  passes_;

    state::Version version_ = 0;
    Stage          stage_   = Stage::ready;
    StepTotals     totals_;
    StepTiming     timing_;
    MemoryWatch    memory_;
    std::uint64_t  sent_before_ = 0;
    bool           began_       = false;  // the first step
    bool           looks_       = false;  // at each gradient of the next step: the last one was skipped because of numbers not finite

    std::vector<std::int64_t> nonfinite_ = std::vector<std::int64_t>(ranks());  // a key a rank
};

}  // namespace lockstep
