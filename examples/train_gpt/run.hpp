#pragma once
// A run of train_gpt for one model type and one precision: data, trainer, loop, sample, export.

#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "adam_family.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/source_text.hpp"
#include "lockstep/data/token_stream.hpp"
#include "lockstep/data/tokenizer.hpp"
#include "lockstep/data/windows.hpp"
#include "lockstep/nn/gpt2.hpp"
#include "lockstep/nn/llama.hpp"
#include "lockstep/optim/sgd.hpp"
#include "lockstep/parallel/replicated.hpp"
#include "lockstep/parallel/sharded.hpp"
#include "lockstep/plan/flops.hpp"
#include "lockstep/report/terminal.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "lockstep/train/trainer.hpp"
#include "lockstep/train/weights.hpp"
#include "machine.hpp"
#include "settings.hpp"

namespace train_gpt {

namespace ls = lockstep;

/// Steps in a row that may be skipped before the run gives up.
inline constexpr std::uint64_t most_skips = 100;

struct RunData {
    ls::data::Tokens                train;
    std::optional<ls::data::Tokens> held_out;
};

/// Training and validation tokens. Every id is checked against the vocabulary here.
RunData open_data(Settings const& settings);

/// How many tokens are generated at the end.
std::size_t sample_tokens(Settings const& settings, RunData const& data);

/// The metrics must not overwrite what is read.
void check_metrics_place(Settings const& settings);

/// Runs `body` on all ranks and then agrees on how it went: where it failed on some, all raise the error of the first of them.
void together(ls::comm::Communicator const& world, std::function<void()> const& body);

ls::report::RunHeader describe_run(Settings const& settings, ls::comm::Communicator const& world, Processor const& processor,
                                   RunData const& data);

ls::report::StepMetrics metrics_of(ls::StepResult const& result, double step_ms, double data_ms, double flops_per_token, double peak_flops);

/// Mean loss over all full windows of the held-out tokens.
template <class Trainer>
double evaluate(Trainer& trainer, ls::data::EvaluationWindows& windows) {
    ls::ExactSum                                      loss;
    std::array<std::int64_t, ls::ExactSum::words + 1> words{};
    for (ls::data::Batch const& batch : windows) {
        auto const part = trainer.evaluate(batch);
        loss += part.loss;
        words.back() += static_cast<std::int64_t>(part.valid_tokens);
    }
    std::copy_n(loss.limbs().begin(), ls::ExactSum::words, words.begin());
    trainer.strategy().start_sum(words).wait();
    std::span<std::int64_t const> const sums(words);
    return ls::ExactSum(sums.template first<ls::ExactSum::words>()).value() / static_cast<double>(words.back());
}

std::int32_t draw_token(std::vector<float> const& logits, double temperature, double uniform);

/// Continues the prompt. All ranks draw the same tokens.
template <class Trainer>
std::vector<std::int32_t> sample(Trainer& trainer, Settings const& settings, std::size_t count) {
    std::vector<std::int32_t> tokens   = ls::data::ByteTokenizer::encode(settings.prompt);
    constexpr std::uint32_t   sampling = 0x5A000000u;
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t const context = std::min(tokens.size(), trainer.model().sizes().sequence);
        auto const        logits  = trainer.next_token_logits(std::span(tokens).last(context));
        tokens.push_back(draw_token(logits, settings.temperature, ls::unit_interval(ls::random_bits({settings.seed, sampling, 0}, i))));
    }
    return tokens;
}

template <class Trainer, class Optimizer>
int train(Settings const& settings, Optimizer const& optimizer, typename Trainer::Communicator const& communicator,
          ls::comm::Communicator const& world) {
    using Clock            = std::chrono::steady_clock;
    std::size_t const rank = static_cast<std::size_t>(world.rank()), ranks = static_cast<std::size_t>(world.size());

    RunData const                              data = open_data(settings);
    ls::data::TokenStream                      stream(data.train, {.sequence     = settings.sequence,
                                                                   .global_batch = settings.global_batch,
                                                                   .rank         = rank,
                                                                   .ranks        = ranks,
                                                                   .order        = settings.order,
                                                                   .seed         = settings.seed,
                                                                   .ignore_label = settings.ignore_label});
    std::optional<ls::data::EvaluationWindows> windows;
    if (data.held_out)
        windows.emplace(*data.held_out, ls::data::WindowOptions{.sequence     = settings.sequence,
                                                                .batch        = settings.micro_batch,
                                                                .rank         = rank,
                                                                .ranks        = ranks,
                                                                .ignore_label = settings.ignore_label});

    Trainer trainer(settings.sizes, optimizer, communicator,
                    {.seed        = settings.seed,
                     .micro_batch = settings.micro_batch,
                     .max_norm    = settings.clip,
                     .threads     = settings.threads,
                     .model       = {.dropout = settings.dropout, .recompute = settings.recompute},
                     .strategy    = settings.parallel});
    if (!settings.init.empty()) ls::load_weights(trainer, settings.init);

    Processor const                          processor = measure_processor(world, settings.threads);
    std::unique_ptr<ls::report::MetricsFile> metrics;
    together(world, [&] {
        if (rank != 0) return;
        if (!settings.export_dir.empty()) check_export_place(settings.export_dir);
        if (settings.metrics.empty()) return;
        check_metrics_place(settings);
        metrics = std::make_unique<ls::report::MetricsFile>(settings.metrics);  // last: it is the first to write
    });
    std::ostream         silent(nullptr);
    ls::report::Terminal terminal(rank == 0 ? std::cout : silent, 0, settings.steps, ls::report::standard_screen());
    terminal.header(describe_run(settings, world, processor, data));

    double const  flops   = ls::plan::flops_per_token(settings.sizes, settings.sequence);
    std::uint64_t skipped = 0;
    while (trainer.version() < settings.steps) {
        auto const             start  = Clock::now();
        ls::data::Batch const& batch  = stream.next();
        ls::StepResult const   result = trainer.step(batch, settings.schedule(trainer.version()));
        double const           ms     = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
        double const           wait   = std::chrono::duration<double, std::milli>(stream.last_wait()).count();

        ls::report::StepMetrics line = metrics_of(result, ms, wait, flops, processor.peak_flops);
        bool const              ends = result.version == settings.steps;
        if (windows && settings.eval_every != 0 && result.applied && (result.version % settings.eval_every == 0 || ends))
            line.val_loss = evaluate(trainer, *windows);
        together(world, [&] {
            if (metrics) metrics->write(line);
        });
        terminal.step(line);
        if (line.val_loss) terminal.evaluation(result.version, *line.val_loss);
        skipped = result.applied ? 0 : skipped + 1;
        if (skipped == most_skips)
            ls::training_error("training: ", most_skips, " steps in a row were skipped at version ", result.version, ": ",
                               name(result.skip), " (loss ", result.loss, ", gradient norm ", result.gradient_norm, ")");
    }
    terminal.finish();

    bool const        text  = data.train.is_text();
    std::size_t const count = sample_tokens(settings, data);
    if (count != 0) {
        auto const tokens = sample(trainer, settings, count);
        if (rank == 0) print_sample(tokens, text);
    }
    if (!settings.export_dir.empty()) ls::export_weights(trainer, settings.export_dir);
    return 0;
}

template <class Model, class Precision, class Optimizer>
int with_strategy(Settings const& settings, Optimizer const& optimizer, ls::comm::Communicator const& world) {
    switch (settings.strategy) {
        case Strategy::replicated:
            return train<ls::Trainer<Model, Precision, Optimizer, ls::parallel::Replicated<>>>(settings, optimizer, world, world);
        case Strategy::sharded:
            return train<ls::Trainer<Model, Precision, Optimizer, ls::parallel::Sharded<>>>(settings, optimizer, world, world);
        default:
            return train<ls::Trainer<Model, Precision, Optimizer, ls::parallel::Single>>(settings, optimizer, ls::parallel::Alone{}, world);
    }
}

template <class Model, class Precision>
int with_optimizer(Settings const& s, ls::comm::Communicator const& world) {
    if (s.optimizer == Optimizer::sgd)
        return with_strategy<Model, Precision>(s, ls::optim::Sgd{.momentum = s.momentum, .weight_decay = s.weight_decay}, world);
    AdamFamily const adam{.decoupled = s.optimizer == Optimizer::adamw,
                          .adam      = {.beta1 = s.beta1, .beta2 = s.beta2, .epsilon = s.eps, .weight_decay = s.weight_decay},
                          .adamw     = {.beta1 = s.beta1, .beta2 = s.beta2, .epsilon = s.eps, .weight_decay = s.weight_decay}};
    return with_strategy<Model, Precision>(s, adam, world);
}

/// Each precision is compiled in a translation unit of its own: both models share its kernels.
template <class Precision>
int run_model(Settings const& settings, ls::comm::Communicator const& world) {
    using Storage = ls::tensor::ArenaStorage;
    if (settings.sizes.arch == ls::state::Architecture::gpt2) return with_optimizer<ls::nn::Gpt2<Storage>, Precision>(settings, world);
    return with_optimizer<ls::nn::Llama<Storage>, Precision>(settings, world);
}

}  // namespace train_gpt
