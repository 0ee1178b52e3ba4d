// The command line of train_gpt.

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "lockstep/core/error.hpp"
#include "lockstep/io/file.hpp"
#include "lockstep/io/hugging_face_config.hpp"
#include "presets.hpp"

namespace train_gpt {

namespace {

namespace ls = lockstep;

template <class E>
using Words = std::vector<std::pair<std::string, E>>;

constexpr std::uint64_t any_count  = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t most_size  = ls::state::ModelSizes::largest;
constexpr std::uint64_t most_rows  = std::uint64_t{1} << 31;  // of a batch
constexpr std::uint64_t most_steps = 0xFFFFFFFF;              // a step is a 32-bit part of the key of random numbers
constexpr double        most_real  = std::numeric_limits<float>::max();

enum class Ends { closed, open_above, open_below };

/// The flags, and which of them were given.
class Flags {
public:
    explicit Flags(Settings& settings) : s_(settings) {
        app_.set_help_flag("-h,--help", "Print this and exit");
        app_.get_formatter()->column_width(44);
        for (Preset const& preset : presets) preset_names_.emplace_back(preset.name, std::string(preset.name));

        choose("--preset", preset_, preset_names_, "Sizes, batch and steps by name; other flags win (demo)");
        name("--data", s_.data, "Training tokens: .bin is an llm.c shard, anything else text (the project's own sources)");
        name("--val-data", s_.val_data, "Held-out tokens");
        real("--val-fraction", s_.val_fraction, 0, 1, Ends::open_above, "Part of --data that is held out, at its end");
        count("--eval-every", s_.eval_every, 0, any_count, "Evaluate over all held-out windows every N steps; 0: never");
        label("--ignore-label", s_.ignore_label, "A label equal to it does not count in the loss");
        choose("--order", s_.order,
               Words<ls::data::Order>{{"shuffled", ls::data::Order::shuffled}, {"sequential", ls::data::Order::sequential}},
               "Order of samples");
        count("--seed", s_.seed, 0, any_count, "Of every random number");

        choose("--arch", s_.sizes.arch,
               Words<ls::state::Architecture>{{"gpt2", ls::state::Architecture::gpt2}, {"llama", ls::state::Architecture::llama}},
               "Architecture");
        count("--layers", s_.sizes.layers, 1, ls::state::ModelSizes::most_layers, "Blocks");
        count("--heads", s_.sizes.heads, 1, most_size, "Heads of queries");
        count("--kv-heads", s_.sizes.kv_heads, 1, most_size, "Heads of keys and values (as many as --heads)");
        count("--dim", s_.sizes.dim, 1, most_size, "Channels");
        count("--ffn", s_.sizes.ffn, 1, most_size, "Channels inside the feed-forward part (4 dim; llama 8/3 dim)");
        count("--vocab", s_.sizes.vocab, 1, most_size, "Vocabulary");
        count("--seq", s_.sequence, 1, most_size, "Tokens of a sequence");
        real("--dropout", s_.dropout, 0, 1, Ends::open_above, "Probability, on embeddings, attention weights and residual branches");
        name("--init", s_.init, "Initial weights: a safetensors file, or a folder with config.json");

        count("--global-batch", s_.global_batch, 1, most_rows, "Sequences of a step, over all ranks");
        count("--micro-batch", s_.micro_batch, 1, most_rows, "Sequences of a forward");
        choose("--precision", s_.precision,
               Words<Precision>{{"fp32", Precision::fp32}, {"bf16", Precision::bf16}, {"fp16", Precision::fp16}},
               "Compute type; masters are fp32");
        choose("--reduce-dtype", wire_, Words<ls::comm::Wire>{{"fp32", ls::comm::Wire::fp32}, {"bf16", ls::comm::Wire::bf16}},
               "Gradients on the wire");
        choose("--optimizer", s_.optimizer,
               Words<Optimizer>{{"sgd", Optimizer::sgd}, {"adam", Optimizer::adam}, {"adamw", Optimizer::adamw}}, "Optimizer");
        real("--lr", s_.schedule.learning_rate, 0, most_real, Ends::closed, "Learning rate");
        real("--beta1", s_.beta1, 0, 1, Ends::open_above, "Of Adam and AdamW");
        real("--beta2", s_.beta2, 0, 1, Ends::open_above, "Of Adam and AdamW");
        real("--eps", s_.eps, 0, 1, Ends::open_below, "Of Adam and AdamW");
        real("--momentum", s_.momentum, 0, 1, Ends::open_above, "Of SGD");
        real("--weight-decay", s_.weight_decay, 0, most_real, Ends::closed, "On tensors of two or more dimensions");
        real("--clip", s_.clip, 0, most_real, Ends::closed, "Global gradient norm; 0: no clipping");
        choose("--schedule", s_.schedule.shape,
               Words<ls::optim::Shape>{
                   {"constant", ls::optim::Shape::constant}, {"cosine", ls::optim::Shape::cosine}, {"wsd", ls::optim::Shape::wsd}},
               "Learning rate over the versions");
        count("--warmup", s_.schedule.warmup, 0, most_steps, "Steps of warm-up");
        real("--min-lr-ratio", s_.schedule.min_ratio, 0, 1, Ends::closed, "Where cosine and wsd end");
        count("--steps", s_.steps, 0, most_steps, "Optimizer steps, counted from version 0");

        choose("--strategy", strategy_,
               Words<std::string>{
                   {"single", "single"}, {"replicated", "replicated"}, {"sharded-optimizer", ""}, {"sharded", "sharded"}, {"hybrid", ""}},
               "Parallelism (single on 1 rank, replicated on more)");
        count("--shard-group", shard_group_, 1, most_rows, "Ranks of a group, for hybrid");
        choose("--reshard", s_.parallel.reshard,
               Words<ls::parallel::Reshard>{{"always", ls::parallel::Reshard::always}, {"never", ls::parallel::Reshard::never}},
               "When gathered weights are freed");
        count("--prefetch", s_.parallel.prefetch, 0, ls::state::ModelSizes::most_layers, "Units gathered ahead of use");
        real("--bucket-mb", bucket_mb_, 0, 1e6, Ends::closed, "Gradient bucket in MB; 0: one parameter");
        choose("--overlap", s_.parallel.overlap, on_off, "Communication during backward");
        choose("--reduction", reduction_, Words<bool>{{"ordered", true}, {"vendor", false}}, "Who sums over the ranks");
        choose("--accumulate", accumulate_,
               Words<ls::parallel::Accumulate>{{"local", ls::parallel::Accumulate::local}, {"sharded", ls::parallel::Accumulate::sharded}},
               "Where micro-steps add up (by strategy)");
        choose("--reproducible", reproducible_, on_off, "The same bits for any number of ranks");
        choose("--recompute", s_.recompute, Words<bool>{{"none", false}, {"block", true}}, "Activation checkpointing");
        count("--threads", s_.threads, 1, 1024, "Threads of this rank (cores of the node / ranks on it)");
        choose("--isa", isa_,
               Words<std::string>{{"auto", "auto"}, {"amx", "amx"}, {"avx512", "avx512"}, {"avx2", "avx2"}, {"scalar", "scalar"}},
               "Caps what kernels may use");

        name("--metrics", s_.metrics, "JSONL, one object a step");
        name("--trace", unsupported_text_, "Chrome/Perfetto trace");
        text("--trace-steps", unsupported_text_, "Steps A:B of the trace");
        name("--report", unsupported_text_, "HTML report");
        name("--save", unsupported_text_, "Checkpoints");
        text("--save-every", unsupported_text_, "Steps between checkpoints");
        text("--keep", unsupported_text_, "Checkpoints kept");
        name("--resume", unsupported_text_, "Continue from a checkpoint");
        name("--export", s_.export_dir, "Write model.safetensors and config.json at the end");
        count("--sample", s_.sample, 0, most_size, "Tokens generated at the end (200 on text)");
        text("--prompt", s_.prompt, "Start of the sample");
        real("--temperature", s_.temperature, 0, 1e6, Ends::closed, "Of the sample; 0: always the likeliest token");
        text("--timeout", unsupported_text_, "Seconds that a collective may wait");
    }

    /// Returns false where help was asked for.
    bool parse(int argc, char const* const* argv, bool prints) {
        app_.allow_extras();
        try {
            app_.parse(argc, argv);
        } catch (CLI::CallForHelp const&) {
            if (prints) std::fputs(app_.help().c_str(), stdout);
            return false;
        } catch (CLI::ParseError const& error) {
            for (CLI::Option const* option : app_.get_options())
                if (option->count() > 1) ls::input_error(option->get_name(), ": expected once, found ", option->count(), " times");
            std::string const text = error.what();  // "--lr: 1 required NUMBER missing"
            ls::input_error(ls::io::printable(text.substr(0, text.find(':'))), ": expected a value, found none");
        }
        if (auto const unknown = app_.remaining(); !unknown.empty()) {
            auto const flag = std::find_if(unknown.begin(), unknown.end(), [](std::string const& word) { return word.starts_with('-'); });
            ls::input_error(shown(flag == unknown.end() ? unknown.front() : *flag),
                            ": expected one of the flags that --help lists, found another word");
        }
        return true;
    }

    void complete() {
        for (char const* flag :
             {"--trace", "--trace-steps", "--report", "--save", "--save-every", "--keep", "--resume", "--timeout", "--shard-group"})
            if (given(flag)) not_yet(flag);
        if (strategy_.empty()) not_yet("--strategy " + app_["--strategy"]->as<std::string>());
        if (!reduction_) not_yet("--reduction vendor");
        if (reproducible_) not_yet("--reproducible on");
        if (isa_ == "avx2") not_yet("--isa " + isa_);
        if (isa_ != "auto")
            ls::kernel::use(isa_ == "scalar" ? ls::kernel::Isa::scalar : isa_ == "amx" ? ls::kernel::Isa::amx : ls::kernel::Isa::simd);
        if (strategy_ == "single") s_.strategy = Strategy::single;
        if (strategy_ == "replicated") s_.strategy = Strategy::replicated;
        if (strategy_ == "sharded") s_.strategy = Strategy::sharded;
        s_.parallel.wire       = wire_;
        s_.parallel.accumulate = accumulate_;

        apply_preset();
        apply_sizes();
        s_.parallel.bucket_bytes = static_cast<std::size_t>(bucket_mb_ * 1024 * 1024);
        s_.schedule.total        = s_.steps;
    }

private:
    inline static Words<bool> const on_off{{"on", true}, {"off", false}};

    static std::string shown(std::string const& written) { return written.empty() ? "nothing" : ls::io::printable(written); }

    template <class Assign>
    void add(char const* flag, std::string const& type, char const* help, Assign const& assign) {
        app_.add_option_function<std::string>(flag, assign, help)->type_name(type);
    }
    void text(char const* flag, std::string& value, char const* help) {
        add(flag, "TEXT", help, [flag, &value](std::string const& written) {
            if (written.empty()) ls::input_error(flag, ": expected a text, found nothing");
            value = written;
        });
    }
    void name(char const* flag, std::string& value, char const* help) {
        add(flag, "NAME", help, [flag, &value](std::string const& written) {  // names are part of messages of one line
            if (written.empty() || std::any_of(written.begin(), written.end(), [](unsigned char c) { return c < ' '; }))
                ls::input_error(flag, ": expected a name without control characters, found ", shown(written));
            value = written;
        });
    }
    template <class T>
    void count(char const* flag, T& value, std::uint64_t least, std::uint64_t most, char const* help) {
        add(flag, "N", help, [=, &value](std::string const& written) {
            std::uint64_t number   = 0;
            auto const [end, code] = std::from_chars(written.data(), written.data() + written.size(), number);
            if (code != std::errc() || end != written.data() + written.size() || number < least || number > most)
                ls::input_error(flag, ": expected a whole number from ", least, " to ", most, ", found ", shown(written));
            if constexpr (requires { value.emplace(); })
                value = static_cast<typename T::value_type>(number);
            else
                value = static_cast<T>(number);
        });
    }
    /// May be negative, as -100 is elsewhere: no token equals it.
    void label(char const* flag, std::optional<std::int32_t>& value, char const* help) {
        add(flag, "N", help, [=, &value](std::string const& written) {
            using Limits           = std::numeric_limits<std::int32_t>;
            std::int32_t number    = 0;
            auto const [end, code] = std::from_chars(written.data(), written.data() + written.size(), number);
            if (code != std::errc() || end != written.data() + written.size())
                ls::input_error(flag, ": expected a whole number from ", Limits::min(), " to ", Limits::max(), ", found ", shown(written));
            value = number;
        });
    }
    template <class T>
    void real(char const* flag, T& value, double least, double most, Ends ends, char const* help) {
        add(flag, "NUMBER", help, [=, &value](std::string const& written) {
            double number          = 0;
            auto const [end, code] = std::from_chars(written.data(), written.data() + written.size(), number);
            bool const valid       = code == std::errc() && end == written.data() + written.size();  // NaN is in no interval
            if (!valid || !(number >= least && number <= most) || (ends == Ends::open_above && number == most) ||
                (ends == Ends::open_below && number == least))
                ls::input_error(flag, ": expected a number from ", ends == Ends::open_below ? "above " : "", least, " to ",
                                ends == Ends::open_above ? "below " : "", most, ", found ", shown(written));
            value = static_cast<T>(number);
        });
    }
    template <class T, class E>
    void choose(char const* flag, T& value, Words<E> const& words, char const* help) {
        std::string names;
        for (auto const& [word, meaning] : words) names += (names.empty() ? "" : "|") + word;
        add(flag, names, help, [flag, &value, words, names](std::string const& written) {
            for (auto const& [word, meaning] : words)
                if (word == written) return static_cast<void>(value = meaning);
            ls::input_error(flag, ": expected ", names, ", found ", shown(written));
        });
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
            unless_given("--eval-every", s_.eval_every, preset.eval_every);
            s_.eval_asked = given("--eval-every") && s_.eval_every != 0;
            unless_given("--lr", s_.schedule.learning_rate, preset.schedule.learning_rate);
            unless_given("--schedule", s_.schedule.shape, preset.schedule.shape);
            unless_given("--warmup", s_.schedule.warmup, preset.schedule.warmup);
            unless_given("--min-lr-ratio", s_.schedule.min_ratio, preset.schedule.min_ratio);
            unless_given("--beta2", s_.beta2, preset.beta2);
            s_.most_rows = preset.most_rows;
        }
    }

    /// The description of the weights of --init: in the same folder, where there is one.
    std::filesystem::path init_config() const {
        namespace fs = std::filesystem;
        if (s_.init.empty()) return {};
        std::error_code failed;
        fs::path const  path   = s_.init;
        fs::path const  config = fs::is_directory(path, failed)           ? path / "config.json"
                                 : path.filename() == "model.safetensors" ? path.parent_path() / "config.json"
                                                                          : fs::path();
        return !config.empty() && fs::exists(config, failed) ? config : fs::path();
    }

    /// Sizes from config.json where there is one, else from flags and preset.
    void apply_sizes() {
        bool const llama = s_.sizes.arch == ls::state::Architecture::llama;
        unless_given("--kv-heads", s_.sizes.kv_heads, s_.sizes.heads);
        unless_given("--ffn", s_.sizes.ffn, llama ? (8 * s_.sizes.dim / 3 + 31) / 32 * 32 : 4 * s_.sizes.dim);
        s_.sizes.tied     = !llama;
        s_.sizes.sequence = s_.sequence;
        auto const config = init_config();
        if (config.empty()) return check_sizes();

        ls::state::ModelSizes const file  = ls::io::read_config(config);
        auto const                  agree = [&](char const* flag, std::size_t wanted, std::size_t found) {
            if (given(flag) && wanted != found) ls::input_error(flag, " ", wanted, ": expected ", found, " as ", config.string(), " says");
        };
        if (given("--arch") && file.arch != s_.sizes.arch)
            ls::input_error("--arch ", ls::state::name(s_.sizes.arch), ": expected ", ls::state::name(file.arch), " as ", config.string(),
                            " says");
        agree("--layers", s_.sizes.layers, file.layers);
        agree("--heads", s_.sizes.heads, file.heads);
        agree("--kv-heads", s_.sizes.kv_heads, file.kv_heads);
        agree("--dim", s_.sizes.dim, file.dim);
        agree("--ffn", s_.sizes.ffn, file.ffn);
        agree("--vocab", s_.sizes.vocab, file.vocab);
        s_.sizes = file;
        if (!given("--seq")) s_.sequence = file.sequence;
        if (s_.sequence > file.sequence)
            ls::input_error("--seq ", s_.sequence, ": expected at most ", file.sequence, " as ", config.string(), " says");
    }

    /// What the sizes of the flags must have to do with each other.
    void check_sizes() const {
        auto const& z = s_.sizes;
        if (z.dim % z.heads != 0) ls::input_error("--dim: expected a multiple of --heads ", z.heads, ", found ", z.dim);
        if (z.arch == ls::state::Architecture::gpt2 && z.kv_heads != z.heads)
            ls::input_error("--kv-heads: expected ", z.heads, " as --heads, because the architecture is gpt2, found ", z.kv_heads);
        if (z.heads % z.kv_heads != 0) ls::input_error("--kv-heads: expected a divisor of --heads ", z.heads, ", found ", z.kv_heads);
        if (z.arch == ls::state::Architecture::llama && z.head_size() % 2 != 0)
            ls::input_error("--dim: expected an even number of channels a head, because llama rotates pairs, found ", z.dim, " / ", z.heads,
                            " = ", z.head_size());
        z.validate("--layers --dim --ffn --vocab --seq");
    }

    Settings&                               s_;
    CLI::App                                app_{"train_gpt: trains a GPT on one or more ranks (mpiexec -n P train_gpt ...)", "train_gpt"};
    std::string                             preset_ = "demo", strategy_ = "automatic", isa_ = "auto", unsupported_text_;
    Words<std::string>                      preset_names_;
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
