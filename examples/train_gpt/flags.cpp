// The command line of train_gpt.

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <set>

#include "lockstep/core/error.hpp"
#include "lockstep/io/hugging_face_config.hpp"
#include "presets.hpp"

namespace train_gpt {

namespace {

namespace ls = lockstep;

template <class E>
using Words = std::vector<std::pair<std::string, E>>;

/// The flags, and which of them were given.
class Flags {
public:
    explicit Flags(Settings& settings) : s_(settings) {
        app_.set_help_flag("-h,--help", "Print this and exit");
        app_.get_formatter()->column_width(44);
        for (Preset const& preset : presets) preset_names_.emplace_back(preset.name, std::string(preset.name));

        choose("--preset", preset_, preset_names_, "Sizes, batch and steps by name; other flags win (demo)");
        text("--data", s_.data, "Training tokens: .bin is an llm.c shard, anything else text (the project's own sources)");
        text("--val-data", s_.val_data, "Held-out tokens");
        real("--val-fraction", s_.val_fraction, "Part of --data that is held out, at its end");
        count("--eval-every", s_.eval_every, "Evaluate over all held-out windows every N steps; 0: never");
        app_.add_option("--ignore-label", s_.ignore_label, "A label equal to it does not count in the loss");
        choose("--order", s_.order, Words<ls::data::Order>{{"shuffled", ls::data::Order::shuffled}, {"sequential", ls::data::Order::sequential}}, "Order of samples");
        count("--seed", s_.seed, "Of every random number");

        choose("--arch", s_.sizes.arch, Words<ls::state::Architecture>{{"gpt2", ls::state::Architecture::gpt2}, {"llama", ls::state::Architecture::llama}}, "Architecture");
        count("--layers", s_.sizes.layers, "Blocks");
        count("--heads", s_.sizes.heads, "Heads of queries");
        count("--kv-heads", s_.sizes.kv_heads, "Heads of keys and values (as many as --heads)");
        count("--dim", s_.sizes.dim, "Channels");
        count("--ffn", s_.sizes.ffn, "Channels inside the feed-forward part (4 dim; llama 8/3 dim)");
        count("--vocab", s_.sizes.vocab, "Vocabulary");
        count("--seq", s_.sequence, "Tokens of a sequence");
        real("--dropout", s_.dropout, "Probability, on embeddings, attention weights and residual branches");
        text("--init", s_.init, "Initial weights: a safetensors file, or a folder with config.json");

        count("--global-batch", s_.global_batch, "Sequences of a step, over all ranks");
        count("--micro-batch", s_.micro_batch, "Sequences of a forward");
        choose("--precision", s_.precision, Words<Precision>{{"fp32", Precision::fp32}, {"bf16", Precision::bf16}, {"fp16", Precision::fp16}}, "Compute type; masters are fp32");
        choose("--reduce-dtype", wire_, Words<ls::comm::Wire>{{"fp32", ls::comm::Wire::fp32}, {"bf16", ls::comm::Wire::bf16}}, "Gradients on the wire");
        choose("--optimizer", s_.optimizer, Words<Optimizer>{{"sgd", Optimizer::sgd}, {"adam", Optimizer::adam}, {"adamw", Optimizer::adamw}}, "Optimizer");
        real("--lr", s_.schedule.learning_rate, "Learning rate");
        real("--beta1", s_.beta1, "Of Adam and AdamW");
        real("--beta2", s_.beta2, "Of Adam and AdamW");
        real("--eps", s_.eps, "Of Adam and AdamW");
        real("--momentum", s_.momentum, "Of SGD");
        real("--weight-decay", s_.weight_decay, "On tensors of two or more dimensions");
        real("--clip", s_.clip, "Global gradient norm; 0: no clipping");
        choose("--schedule", s_.schedule.shape, Words<ls::optim::Shape>{{"constant", ls::optim::Shape::constant}, {"cosine", ls::optim::Shape::cosine}, {"wsd", ls::optim::Shape::wsd}},
               "Learning rate over the versions");
        count("--warmup", s_.schedule.warmup, "Steps of warm-up");
        real("--min-lr-ratio", s_.schedule.min_ratio, "Where cosine and wsd end");
        count("--steps", s_.steps, "Optimizer steps, counted from version 0");

        choose("--strategy", strategy_, Words<std::string>{{"single", "single"}, {"replicated", "replicated"}, {"sharded-optimizer", ""}, {"sharded", "sharded"}, {"hybrid", ""}},
               "Parallelism (single on 1 rank, replicated on more)");
        count("--shard-group", shard_group_, "Ranks of a group, for hybrid");
        choose("--reshard", s_.parallel.reshard, Words<ls::parallel::Reshard>{{"always", ls::parallel::Reshard::always}, {"never", ls::parallel::Reshard::never}},
               "When gathered weights are freed");
        count("--prefetch", s_.parallel.prefetch, "Units gathered ahead of use");
        real("--bucket-mb", bucket_mb_, "Gradient bucket in MB; 0: one parameter");
        choose("--overlap", s_.parallel.overlap, on_off, "Communication during backward");
        choose("--reduction", reduction_, Words<bool>{{"ordered", true}, {"vendor", false}}, "Who sums over the ranks");
        choose("--accumulate", accumulate_, Words<ls::parallel::Accumulate>{{"local", ls::parallel::Accumulate::local}, {"sharded", ls::parallel::Accumulate::sharded}},
               "Where micro-steps add up (by strategy)");
        choose("--reproducible", reproducible_, on_off, "The same bits for any number of ranks");
        choose("--recompute", s_.recompute, Words<bool>{{"none", false}, {"block", true}}, "Activation checkpointing");
        app_.add_option("--threads", s_.threads, "Threads of this rank (cores of the node / ranks on it)");
        choose("--isa", isa_, Words<std::string>{{"auto", "auto"}, {"amx", "amx"}, {"avx512", "avx512"}, {"avx2", "avx2"}, {"scalar", "scalar"}}, "Caps what kernels may use");

        text("--metrics", s_.metrics, "JSONL, one object a step");
        text("--trace", unsupported_text_, "Chrome/Perfetto trace");
        text("--trace-steps", unsupported_text_, "Steps A:B of the trace");
        text("--report", unsupported_text_, "HTML report");
        text("--save", unsupported_text_, "Checkpoints");
        text("--save-every", unsupported_text_, "Steps between checkpoints");
        text("--keep", unsupported_text_, "Checkpoints kept");
        text("--resume", unsupported_text_, "Continue from a checkpoint");
        text("--export", s_.export_dir, "Write model.safetensors and config.json at the end");
        app_.add_option("--sample", s_.sample, "Tokens generated at the end (200 on text)");
        text("--prompt", s_.prompt, "Start of the sample");
        real("--temperature", s_.temperature, "Of the sample; 0: always the likeliest token");
        text("--timeout", unsupported_text_, "Seconds that a collective may wait");
    }

    bool parse(int argc, char const* const* argv, bool prints) {
        try {
            app_.parse(argc, argv);
        } catch (CLI::CallForHelp const&) {
            if (prints) std::fputs(app_.help().c_str(), stdout);
            return false;
        } catch (CLI::ParseError const& error) {
            ls::input_error("train_gpt: ", error.what(), " (--help lists the flags)");
        }
        return true;
    }

    void complete() {
        for (char const* flag : {"--trace", "--trace-steps", "--report", "--save", "--save-every", "--keep", "--resume", "--timeout", "--shard-group"})
            if (given(flag)) not_yet(flag);
        if (strategy_.empty()) not_yet("--strategy " + app_["--strategy"]->as<std::string>());
        if (!reduction_) not_yet("--reduction vendor");
        if (reproducible_) not_yet("--reproducible on");
        if (isa_ != "auto" && isa_ != "scalar") not_yet("--isa " + isa_);
        ls::kernel::use(isa_ == "scalar" ? ls::kernel::Isa::scalar : ls::kernel::Isa::simd);
        if (strategy_ == "single") s_.strategy = Strategy::single;
        if (strategy_ == "replicated") s_.strategy = Strategy::replicated;
        if (strategy_ == "sharded") s_.strategy = Strategy::sharded;
        s_.parallel.wire       = wire_;
        s_.parallel.accumulate = accumulate_;

        apply_preset();
        apply_sizes();
        check();
        s_.parallel.bucket_bytes = static_cast<std::size_t>(bucket_mb_ * 1024 * 1024);
        s_.schedule.total        = s_.steps;
    }

private:
    inline static Words<bool> const on_off{{"on", true}, {"off", false}};

    template <class T>
    void text(char const* flag, T& value, char const* help) {
        app_.add_option(flag, value, help);
    }
    template <class T>
    void count(char const* flag, T& value, char const* help) {
        counts_.emplace_back(flag);
        app_.add_option(flag, value, help)->check([](std::string const& written) {
            bool const digits = !written.empty() && written.find_first_not_of("0123456789") == std::string::npos;
            return digits && written.size() < 19 ? std::string() : "expected a whole number from 0, found " + written;
        });
    }
    template <class T>
    void real(char const* flag, T& value, char const* help) {
        app_.add_option(flag, value, help)->check([](std::string const& written) {
            double number = 0;
            return CLI::detail::lexical_cast(written, number) && std::isfinite(number) ? std::string() : "expected a finite number, found " + written;
        });
    }
    template <class T, class E>
    void choose(char const* flag, T& value, Words<E> const& words, char const* help) {
        std::string names;
        for (auto const& [word, meaning] : words) names += (names.empty() ? "" : "|") + word;
        app_.add_option_function<std::string>(
                flag,
                [&value, words](std::string const& written) {
                    for (auto const& [word, meaning] : words)
                        if (word == written) value = meaning;
                },
                help)
            ->check([words, names](std::string const& written) {
                for (auto const& [word, meaning] : words)
                    if (word == written) return std::string();
                return "expected " + names + ", found " + written;
            })
            ->type_name(names);
    }

    bool given(std::string const& flag) const { return app_.count(flag) != 0; }

    [[noreturn]] static void not_yet(std::string const& what) { ls::input_error(what, ": not in this version yet"); }

    template <class T>
    void unless_given(char const* flag, T& value, T from_preset) {
        if (!given(flag)) value = from_preset;
    }

    void apply_preset() {
        for (Preset const& preset : presets) {
            if (preset.name != preset_) continue;
            auto const& z = preset.sizes;
            unless_given("--layers", s_.sizes.layers, z.layers);
            unless_given("--heads", s_.sizes.heads, z.heads);
            unless_given("--dim", s_.sizes.dim, z.dim);
            unless_given("--vocab", s_.sizes.vocab, z.vocab);
            unless_given("--seq", s_.sequence, z.sequence);
            unless_given("--global-batch", s_.global_batch, preset.global_batch);
            unless_given("--steps", s_.steps, preset.steps);
            unless_given("--eval-every", s_.eval_every, given("--val-fraction") && s_.val_fraction == 0 && s_.val_data.empty() ? 0 : preset.eval_every);
            unless_given("--lr", s_.schedule.learning_rate, preset.schedule.learning_rate);
            unless_given("--schedule", s_.schedule.shape, preset.schedule.shape);
            unless_given("--warmup", s_.schedule.warmup, preset.schedule.warmup);
            unless_given("--min-lr-ratio", s_.schedule.min_ratio, preset.schedule.min_ratio);
            unless_given("--beta2", s_.beta2, preset.beta2);
            s_.most_rows = preset.most_rows;
        }
    }

    /// Sizes from config.json where there is one, else from flags and preset.
    void apply_sizes() {
        bool const llama = s_.sizes.arch == ls::state::Architecture::llama;
        unless_given("--kv-heads", s_.sizes.kv_heads, s_.sizes.heads);
        unless_given("--ffn", s_.sizes.ffn, llama ? (8 * s_.sizes.dim / 3 + 31) / 32 * 32 : 4 * s_.sizes.dim);
        s_.sizes.tied     = !llama;
        s_.sizes.sequence = s_.sequence;
        namespace fs      = std::filesystem;
        fs::path const config = fs::path(s_.init) / "config.json";
        std::error_code failed;
        if (s_.init.empty() || !fs::is_directory(s_.init, failed) || !fs::exists(config, failed)) return;

        ls::state::ModelSizes const file = ls::io::read_config(config);
        auto const agree = [&](char const* flag, std::size_t wanted, std::size_t found) {
            if (given(flag) && wanted != found) ls::input_error(flag, " ", wanted, ": expected ", found, " as ", config.string(), " says");
        };
        if (given("--arch") && file.arch != s_.sizes.arch) ls::input_error("--arch ", name(s_.sizes.arch), ": expected ", name(file.arch), " as ", config.string(), " says");
        agree("--layers", s_.sizes.layers, file.layers);
        agree("--heads", s_.sizes.heads, file.heads);
        agree("--kv-heads", s_.sizes.kv_heads, file.kv_heads);
        agree("--dim", s_.sizes.dim, file.dim);
        agree("--ffn", s_.sizes.ffn, file.ffn);
        agree("--vocab", s_.sizes.vocab, file.vocab);
        s_.sizes = file;
        if (!given("--seq")) s_.sequence = file.sequence;
        if (s_.sequence > file.sequence) ls::input_error("--seq ", s_.sequence, ": expected at most ", file.sequence, " as ", config.string(), " says");
    }

    void check() const {
        s_.sizes.validate("model sizes");
        auto const within = [](char const* flag, double value, double low, double high, bool open) {
            if (!(value >= low && (open ? value < high : value <= high)))
                ls::input_error(flag, ": expected a number from ", low, open ? " to below " : " to ", high, ", found ", value);
        };
        constexpr double most = std::numeric_limits<float>::max();
        within("--val-fraction", s_.val_fraction, 0, 1, true);
        within("--dropout", static_cast<double>(s_.dropout), 0, 1, true);
        within("--lr", s_.schedule.learning_rate, 0, most, false);
        within("--beta1", s_.beta1, 0, 1, true);
        within("--beta2", s_.beta2, 0, 1, true);
        within("--momentum", s_.momentum, 0, 1, true);
        within("--weight-decay", s_.weight_decay, 0, most, false);
        within("--clip", s_.clip, 0, most, false);
        within("--min-lr-ratio", s_.schedule.min_ratio, 0, 1, false);
        within("--bucket-mb", bucket_mb_, 0, 1e6, false);
        within("--temperature", s_.temperature, 0, 1e6, false);
        if (!(s_.eps > 0 && s_.eps <= 1)) ls::input_error("--eps: expected a number above 0 and at most 1, found ", s_.eps);
        if (given("--threads") && (s_.threads < 1 || s_.threads > 1024)) ls::input_error("--threads: expected a number from 1 to 1024, found ", s_.threads);
        if (s_.global_batch == 0 || s_.global_batch > (std::size_t{1} << 31)) ls::input_error("--global-batch: expected a number from 1 to 2147483648, found ", s_.global_batch);
        if (given("--micro-batch") && s_.micro_batch == 0) ls::input_error("--micro-batch: expected at least 1, found 0");
        if (s_.sequence == 0) ls::input_error("--seq: expected at least 1, found 0");
        if (s_.steps > 0xFFFFFFFFu) ls::input_error("--steps: expected at most 4294967295, found ", s_.steps);
        if (s_.prompt.empty()) ls::input_error("--prompt: expected at least one character, found none");
        if (s_.ignore_label && *s_.ignore_label < 0)
            ls::input_error("--ignore-label: expected a token id of 0 or more, found ", *s_.ignore_label);
        if (s_.sizes.vocab < 256 && s_.sample.value_or(0) != 0)
            for (char const c : s_.prompt)
                if (static_cast<unsigned char>(c) >= s_.sizes.vocab)
                    ls::input_error("--prompt: expected bytes below the vocabulary of ", s_.sizes.vocab, ", found ", static_cast<int>(static_cast<unsigned char>(c)));
    }

    Settings&                               s_;
    CLI::App                                app_{"train_gpt: trains a GPT on one or more ranks (mpiexec -n P train_gpt ...)", "train_gpt"};
    std::string                             preset_ = "demo", strategy_ = "automatic", isa_ = "auto", unsupported_text_;
    Words<std::string>                      preset_names_;
    std::vector<std::string>                counts_;
    std::optional<ls::comm::Wire>           wire_;
    std::optional<ls::parallel::Accumulate> accumulate_;
    std::size_t                             shard_group_  = 0;
    double                                  bucket_mb_    = 25;
    bool                                    reduction_    = true;
    bool                                    reproducible_ = false;
};

}  // namespace

std::optional<Settings> parse(int argc, char const* const* argv, bool prints) {
    Settings settings;
    Flags    flags(settings);
    if (!flags.parse(argc, argv, prints)) return std::nullopt;
    flags.complete();
    return settings;
}

}  // namespace train_gpt
