// A run of train_gpt: what depends on no model type, which is nearly all of it.

#include "run.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communication.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/sampler.hpp"
#include "lockstep/data/source_text.hpp"
#include "lockstep/data/token_stream.hpp"
#include "lockstep/data/tokenizer.hpp"
#include "lockstep/data/windows.hpp"
#include "lockstep/plan/flops.hpp"
#include "lockstep/plan/memory.hpp"
#include "lockstep/report/terminal.hpp"
#include "lockstep/train/gradient_tree.hpp"
#include "lockstep/train/weights.hpp"
#include "lost.hpp"
#include "machine.hpp"
#include "observed.hpp"
#include "places.hpp"
#include "saving.hpp"
#include "stopping.hpp"

namespace train_gpt {

namespace ls = lockstep;

namespace {

struct RunData {
    ls::data::Tokens                train;
    std::optional<ls::data::Tokens> held_out;
};

/// How many tokens are generated at the end.
std::size_t sample_tokens(Settings const& settings, RunData const& data) {
    return settings.sample.value_or(data.train.is_text() ? 200 : 0);
}

/// What a sample begins with: the prompt, or the first token where the default prompt is not in the vocabulary.
std::vector<std::int32_t> prompt_tokens(Settings const& settings) {
    auto const tokens = ls::data::ByteTokenizer::encode(settings.prompt);
    if (!settings.prompt_given && static_cast<std::size_t>(tokens[0]) >= settings.sizes.vocab) return {0};
    return tokens;
}

/// Training and validation tokens. Every id is checked against the vocabulary here.
RunData open_data(Settings const& settings) {
    std::size_t const      needs = settings.sequence + 1;
    ls::data::Tokens const all = settings.data.empty() ? ls::data::source_text(LOCKSTEP_SOURCE_DIR) : ls::data::Tokens::open(settings.data);
    auto const             check = [&](char const* flag, ls::data::Tokens const& tokens, char const* part) {
        if (tokens.size() < needs)
            ls::input_error(flag, ": expected at least ", needs, " tokens", part, " in ", tokens.name(), " for --seq ", settings.sequence,
                                        " and the last label, found ", tokens.size());
    };
    all.check_vocabulary(settings.sizes.vocab);
    RunData data{all, {}};
    if (!settings.val_data.empty()) {
        data.held_out = ls::data::Tokens::open(settings.val_data);
        data.held_out->check_vocabulary(settings.sizes.vocab);
        check("--val-data", *data.held_out, "");
    } else if (settings.val_fraction > 0) {
        auto const split = ls::data::hold_out(all, settings.val_fraction);
        data             = {split.train, split.held_out};
        if (settings.eval_asked) check("--val-fraction", *data.held_out, " held out");
        if (data.held_out->size() < needs) data.held_out.reset();
    }
    if (settings.eval_asked && !data.held_out)
        ls::input_error("--eval-every: expected held-out data, found --val-fraction 0 and no --val-data");
    check("--data", data.train, data.train.size() < all.size() ? " that are not held out" : "");

    if (sample_tokens(settings, data) != 0 && settings.prompt_given)
        for (char const c : settings.prompt)
            if (static_cast<unsigned char>(c) >= settings.sizes.vocab)
                ls::input_error("--prompt: expected bytes below --vocab ", settings.sizes.vocab, ", found ",
                                static_cast<int>(static_cast<unsigned char>(c)));
    return data;
}

ls::report::RunHeader describe_run(Settings const& s, ls::comm::Communicator const& world, Processor const& processor, RunData const& data,
                                   std::vector<ls::state::Unit> const& units) {
    auto const&           z = s.sizes;
    ls::report::RunHeader run;
    run.machine    = ls::report::this_machine();
    run.isa        = name(ls::kernel::isa());
    run.threads    = processor.threads;
    run.ranks      = world.size();
    run.parameters = ls::plan::parameter_count(z);
    auto const add = [&](std::string what, auto const&... parts) { run.settings.emplace_back(std::move(what), ls::sentence(parts...)); };
    add("model", name(z.arch), ", ", z.layers, " layers, ", z.heads, " heads",
        z.kv_heads != z.heads ? ls::sentence(" (", z.kv_heads, " of keys and values)") : "", ", dim ", z.dim, ", ffn ", z.ffn,
        ", vocabulary ", z.vocab, ", ", s.sequence, " tokens a sequence");
    char const* const precisions[]{"fp32", "bf16 compute, fp32 masters", "fp16 compute, fp32 masters, loss scaled"};
    char const* const optimizers[]{"sgd", "adam", "adamw"};
    std::size_t const ranks = static_cast<std::size_t>(world.size());
    add("step", s.global_batch, " sequences", ranks == 1 ? "" : ls::sentence(" over all ranks, ", s.global_batch / ranks, " a rank"), ", ",
        s.micro_batch, " at once, ", precisions[static_cast<int>(s.precision)], ", ", optimizers[static_cast<int>(s.optimizer)], ", ",
        name(s.strategy), s.strategy == Strategy::hybrid ? ls::sentence(" in groups of ", s.parallel.shard_group) : "",
        s.unit_blocks == 1   ? ""
        : s.unit_blocks == 0 ? ", the whole model one unit"
                             : ls::sentence(", units of ", s.unit_blocks, " blocks"),
        s.reproducible ? ", reproducible" : "");
    add("data", data.train.name(), ", ", data.train.size(), " tokens",
        data.held_out ? ls::sentence(", ", data.held_out->size(), " held out") : "");
    add("peak flops", ls::report::readable_count(processor.peak_flops), "FLOP/s measured in registers, all threads");
    ls::observe::Ledger& ledger = ls::observe::ledger();
    for (std::size_t c = 0; c < ls::observe::categories; ++c) run.bytes[c] = ledger[static_cast<ls::observe::Category>(c)].now.load();
    auto const activations = ls::plan::activation_bytes(
        z, s.micro_batch, s.sequence, s.precision == Precision::fp32 ? 4 : 2, s.recompute,
        s.precision == Precision::bf16 ? ls::kernel::logit_storage<ls::precision::bfloat16>() : ls::kernel::LogitStorage{});
    std::size_t const partial = s.reproducible ? ls::partial_sums(s.global_batch / ranks / s.micro_batch) : 0;
    run.predicted_peak        = ledger.total().now.load() + partial * ls::state::unit_offsets(units).back() * sizeof(float) +
                         ls::plan::step_bytes(z, s.micro_batch, s.sequence, activations, static_cast<std::size_t>(processor.threads));
    return run;
}

/// `waited_ms`: for the batches of other ranks.
ls::report::StepMetrics metrics_of(ls::StepResult const& r, double step_ms, double data_ms, double waited_ms, double flops_per_token,
                                   double peak_flops) {
    using ls::observe::Activity;
    auto const              ms = [&](Activity a) { return static_cast<double>(r.times[a]) * 1e-6; };
    ls::report::StepMetrics m;
    m.step                  = r.version;
    m.loss                  = r.loss;
    m.grad_norm             = r.gradient_norm;
    m.lr                    = r.learning_rate;
    m.tokens                = r.tokens;
    m.valid_tokens          = r.valid_tokens;
    m.applied               = r.applied;
    m.skip_reason           = name(r.skip);
    m.loss_scale            = r.loss_scale;
    m.step_ms               = step_ms;
    m.compute_ms            = ms(Activity::compute);
    m.exposed_parameters_ms = ms(Activity::parameters_wait);
    m.exposed_gradients_ms  = ms(Activity::gradients_wait);
    m.exposed_comm_ms       = *m.exposed_parameters_ms + *m.exposed_gradients_ms;
    m.late_peer_ms          = ms(Activity::late_peer) + waited_ms;
    m.update_ms             = ms(Activity::update);
    m.data_ms               = data_ms;
    m.other_ms              = step_ms - *m.compute_ms - *m.exposed_comm_ms - *m.late_peer_ms - *m.update_ms - data_ms;
    auto const& wire        = r.communication;
    m.comm_ms               = static_cast<double>(wire.wire_ns) * 1e-6;
    m.hidden_by_compute_ms  = static_cast<double>(wire.meanwhile[Activity::compute]) * 1e-6;
    m.hidden_comm_ms =
        static_cast<double>(wire.wire_ns - wire.meanwhile[Activity::parameters_wait] - wire.meanwhile[Activity::gradients_wait]) * 1e-6;
    m.tokens_per_s            = static_cast<double>(r.tokens) / step_ms * 1e3;
    m.tflops                  = *m.tokens_per_s * flops_per_token * 1e-12;
    m.mfu                     = *m.tflops * 1e12 / peak_flops;
    m.mem_peak_bytes          = r.memory.held.total;
    m.mem_peak_forward_bytes  = r.memory.forward.total;
    m.mem_peak_backward_bytes = r.memory.backward.total;
    for (std::size_t c = 0; c < ls::observe::categories; ++c) {
        m.mem[c]          = r.memory.held.category[c];
        m.mem_forward[c]  = r.memory.forward.category[c];
        m.mem_backward[c] = r.memory.backward.category[c];
    }
    return m;
}

std::int32_t draw_token(std::vector<float> const& logits, double temperature, double uniform) {
    auto const best = std::max_element(logits.begin(), logits.end());
    if (temperature == 0) return static_cast<std::int32_t>(best - logits.begin());
    double sum = 0;
    for (float const logit : logits) sum += std::exp((static_cast<double>(logit) - static_cast<double>(*best)) / temperature);
    double left = uniform * sum;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        left -= std::exp((static_cast<double>(logits[i]) - static_cast<double>(*best)) / temperature);
        if (left <= 0) return static_cast<std::int32_t>(i);
    }
    return static_cast<std::int32_t>(best - logits.begin());
}

/// The signal that some rank has got, or 0. Collective.
int common_signal(ls::comm::Communicator const& world) {
    auto const signals = world.gather_values(static_cast<std::uint64_t>(stop_signal()));
    return static_cast<int>(*std::max_element(signals.begin(), signals.end()));
}

/// Mean loss over all full windows of the held-out tokens; nothing where they have no valid label. It may take long: a checkpoint that is
/// being written goes on, and where a signal ends the run there is no loss. Collective.
std::optional<double> evaluate(AnyTrainer& trainer, ls::comm::Communicator const& world, ls::data::EvaluationWindows& windows,
                               Saving& saving) {
    ls::ExactSum                                      loss;
    std::array<std::int64_t, ls::ExactSum::words + 1> words{};
    for (std::size_t i = 0; i < windows.batches(); ++i) {
        ls::data::Batch const* batch = nullptr;
        ls::together_at_length(world, [&] { batch = &windows[i]; });  // from a file that somebody may change
        Evaluated const part = trainer.evaluate(*batch);
        loss += part.loss;
        words.back() += static_cast<std::int64_t>(part.valid_tokens);
        saving.go_on();
        if (common_signal(world) != 0) return std::nullopt;
    }
    std::copy_n(loss.limbs().begin(), ls::ExactSum::words, words.begin());
    world.all_reduce(words);
    if (words.back() == 0) return std::nullopt;
    std::span<std::int64_t const> const sums(words);
    return ls::ExactSum(sums.first<ls::ExactSum::words>()).value() / static_cast<double>(words.back());
}

/// Continues the prompt, until a signal comes. All ranks draw the same tokens. Collective.
std::vector<std::int32_t> sample(AnyTrainer& trainer, ls::comm::Communicator const& world, Settings const& settings, std::size_t count) {
    std::vector<std::int32_t> tokens   = prompt_tokens(settings);
    constexpr std::uint32_t   sampling = ls::purpose::generation;
    for (std::size_t i = 0; i < count && common_signal(world) == 0; ++i) {
        std::size_t const context = std::min(tokens.size(), trainer.sizes().sequence);
        auto const        logits  = trainer.next_token_logits(std::span(tokens).last(context));
        tokens.push_back(draw_token(logits, settings.temperature, ls::unit_interval(ls::random_bits({settings.seed, sampling, 0}, i))));
    }
    return tokens;
}

/// Runs the body. Where it raises an error of the data or of the training, as all ranks do alike, the position is saved before that ends
/// the run. Collective.
template <class Body>
void saving_before_errors(Saving& saving, ls::io::RunPosition const& position, Body const& body) {
    try {
        body();
    } catch (ls::Error const& error) {
        if (error.fault() != ls::Fault::peer) saving.finish(position);
        throw;
    }
}

}  // namespace

int run(Settings const& settings, ls::comm::Communicator const& world, MakeTrainer* make_trainer, LastEvents& events) {
    using Clock            = std::chrono::steady_clock;
    std::size_t const rank = static_cast<std::size_t>(world.rank()), ranks = static_cast<std::size_t>(world.size());

    std::optional<RunData> opened;
    std::optional<Places>  places;
    Lost                   lost;
    std::uint64_t          data_checksum = 0, held_out_checksum = 0;
    ls::together_at_length(world, [&] {
        opened            = open_data(settings);
        data_checksum     = opened->train.checksum();
        held_out_checksum = opened->held_out ? opened->held_out->checksum() : 0;
    });
    RunData const& data = *opened;
    ls::agree(world, data_checksum, ls::sentence("bytes of --data ", data.train.name()));
    ls::agree(world, held_out_checksum, "bytes that are held out");
    if (!settings.init.empty() && settings.resume.empty())
        ls::together_at_length(world,
                               [&] { ls::io::check_layers(settings.init, settings.sizes); });  // a model of many would be made in vain
    std::optional<ls::data::EvaluationWindows> windows;
    if (data.held_out)
        windows.emplace(*data.held_out, ls::data::WindowOptions{.sequence     = settings.sequence,
                                                                .batch        = settings.micro_batch,
                                                                .rank         = rank,
                                                                .ranks        = ranks,
                                                                .ignore_label = settings.ignore_label});

    std::unique_ptr<AnyTrainer> const made    = make_trainer(settings, world);
    AnyTrainer&                       trainer = *made;
    ls::io::CheckpointFacts           resumed;
    if (!settings.resume.empty())
        resumed = resume_run(settings, trainer);
    else if (!settings.init.empty())
        ls::load_weights(trainer, settings.init);
    ls::io::RunPosition   position = resumed.position;
    ls::data::TokenStream stream(data.train, {.sequence     = settings.sequence,
                                              .global_batch = settings.global_batch,
                                              .rank         = rank,
                                              .ranks        = ranks,
                                              .order        = settings.order,
                                              .seed         = settings.seed,
                                              .ignore_label = settings.ignore_label,
                                              .first_step   = position.next_sample / settings.global_batch});

    Configuration const configuration = saved_configuration(settings, data_checksum);
    Saving              saving(settings, trainer, configuration, resumed.run);

    Processor const processor = measure_processor(world, settings.threads, settings.precision);
    ls::on_first_rank_at_length(world, [&] { places.emplace(open_places(settings)); });
    events.keep_earlier();
    std::ostream          silent(nullptr);
    ls::report::Terminal  terminal(rank == 0 ? std::cout : silent, trainer.version(), settings.steps, ls::report::standard_screen());
    Observed              observed(settings, world, trainer.units());
    ls::report::RunHeader header = describe_run(settings, world, processor, data, trainer.units());
    if (ranks > 1) {
        header.settings.emplace_back("communication", describe_communication(settings, trainer));
        header.settings.emplace_back("clocks", observed.clocks());
    }
    terminal.header(header);
    if (!settings.resume.empty()) {
        terminal.line(ls::sentence("resumed from version ", trainer.version(), " of ", settings.resume));
        if (!settings.init.empty()) terminal.line("--init is not loaded: the weights are those of --resume");
        if (std::string const changed = what_changed(resumed.configuration, configuration); !changed.empty())
            terminal.line("changed since it was saved: " + changed);
    }
    if (auto const there = ls::data::windows(data.train.size(), settings.sequence, data.train.name()); there < settings.global_batch)
        terminal.line(ls::sentence("--data has ", there, " sequences, fewer than --global-batch ", settings.global_batch,
                                   ": a step sees some of them more than once"));
    saving.tell([&](std::string const& line) { terminal.line(line); });

    if (!settings.resume.empty()) {
        std::optional<double> val_loss;  // of an evaluation that was interrupted
        if (windows && position.evaluation_due) {
            saving_before_errors(saving, position, [&] { val_loss = evaluate(trainer, world, *windows, saving); });
            position.evaluation_due = !val_loss && common_signal(world) != 0;
            if (!position.evaluation_due) terminal.evaluation(trainer.version(), val_loss);
        }
        if (places && places->metrics && !lost.written([&] { places->metrics->write_resumed(trainer.version(), val_loss); }))
            places->metrics.reset();
        if (position.skipped_in_a_row != 0) trainer.look_at_gradients();
    }
    double const           flops   = ls::plan::flops_per_token(settings.sizes, settings.sequence);
    ls::data::Batch const* batch   = nullptr;
    double                 fetched = 0;  // how long that took
    // no longer than the others wait for this rank in a collective
    auto const patience =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(1.0, settings.parallel.timeout / 4)));
    auto const ms_of = [](auto time) { return std::chrono::duration<double, std::milli>(time).count(); };
    auto const fetch = [&] {  // the batch of the next step, from a file that somebody may change, and that may be slow
        auto const start = Clock::now();
        auto       there = start;
        ls::meet_until(world, [&] {
            ls::observe::Span const wait(ls::observe::Event::batch_wait);
            bool const              ready = trainer.version() >= settings.steps || stream.ready(patience);
            if (ready && there == start) there = Clock::now();
            return ready;
        });
        fetched = ms_of(there - start);
        ls::together(world, [&] {
            if (trainer.version() < settings.steps) batch = &stream.next();
        });
    };
    fetch();
    double        waited  = 0;  // for the batches of other ranks
    int           stopped = common_signal(world);
    ls::NonFinite first_seen;  // of the steps that were skipped in a row
    while (stopped == 0 && trainer.version() < settings.steps) {
        observed.begin_step(trainer.version() + 1);
        if (settings.max_skips == 1) trainer.look_at_gradients();  // there is no second step that would tell the rank
        auto const           start  = Clock::now();
        ls::StepResult const result = trainer.step(*batch, settings.schedule(trainer.version()));
        double const         ms     = fetched + waited + ms_of(Clock::now() - start);

        ls::report::StepMetrics line = metrics_of(result, ms, fetched, waited, flops, processor.peak_flops);
        bool const              ends = result.version == settings.steps;
        bool const evaluates = windows && settings.eval_every != 0 && result.applied && (result.version % settings.eval_every == 0 || ends);
        position.next_sample += settings.global_batch;
        position.skipped_in_a_row = result.applied ? 0 : position.skipped_in_a_row + 1;
        if (position.skipped_in_a_row == 1 || result.nonfinite.in < first_seen.in) first_seen = result.nonfinite;
        saving_before_errors(saving, position, [&] {
            if (evaluates) line.val_loss = observed.beside_steps([&] { return evaluate(trainer, world, *windows, saving); });
            position.evaluation_due = evaluates && !line.val_loss && common_signal(world) != 0;
            observed.end_step(result, line);
            terminal.step(line);
            if (evaluates && !position.evaluation_due) terminal.evaluation(result.version, line.val_loss);
            if (places && places->metrics && !lost.written([&] { places->metrics->write(line); })) places->metrics.reset();
            auto const before = Clock::now();
            fetch();
            waited = std::max(0.0, ms_of(Clock::now() - before) - fetched);
            if (result.applied && result.version % settings.check_replicas == 0) trainer.check_replicas();
            if (position.skipped_in_a_row >= settings.max_skips)
                ls::training_error("training: ", settings.max_skips, " steps in a row were skipped at version ", result.version, ": ",
                                   name(result.skip), " (loss ", result.loss, ", gradient norm ", result.gradient_norm, ")",
                                   result.skip == ls::Skip::nonfinite ? ", first seen in " + describe(first_seen, trainer.units()) : "");
        });
        saving.after_step(result, position);
        stopped = common_signal(world);
    }
    saving_before_errors(saving, position, [&] { trainer.check_finite(); });
    if (!saving.finish(position)) lost.note();
    terminal.finish();
    if (std::string const slow = observed.slow_rank(); !slow.empty()) terminal.line(slow);
    if (std::string const overwritten = observed.lost(); !overwritten.empty()) terminal.line(overwritten);
    observed.write(header, lost);
    if (stopped != 0) {
        terminal.line(ls::sentence("stopped at version ", trainer.version(), " by ", stopped == SIGINT ? "SIGINT" : "SIGTERM"));
        return lost.exit_code();
    }

    bool const        text  = data.train.is_text();
    std::size_t const count = sample_tokens(settings, data);
    if (count != 0) {
        auto const tokens = sample(trainer, world, settings, count);
        if (rank == 0) print_sample(tokens, text);
    }
    if (!settings.export_dir.empty()) {
        trainer.check_replicas();
        ls::export_weights(trainer, settings.export_dir);
        if (places) places->folder->keep();
    }
    return lost.exit_code();
}

}  // namespace train_gpt
