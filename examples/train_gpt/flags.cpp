// The command line of train_gpt.

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>

#include "lockstep/core/error.hpp"
#include "lockstep/io/file.hpp"
#include "lockstep/io/hugging_face_config.hpp"
#include "lockstep/io/hugging_face_files.hpp"
#include "presets.hpp"

namespace train_gpt {

namespace {

namespace ls = lockstep;

template <class E>
using Words = std::vector<std::pair<std::string, E>>;

constexpr std::uint64_t any_count    = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t most_size    = ls::state::ModelSizes::largest;
constexpr std::uint64_t most_rows    = std::uint64_t{1} << 31;  // of a batch
constexpr std::uint64_t most_steps   = 0xFFFFFFFF;              // a step is a 32-bit part of the key of random numbers
constexpr double        most_timeout = 1e9;                     // seconds
constexpr double        most_real    = std::numeric_limits<float>::max();
constexpr double        least_real   = std::numeric_limits<float>::min();  // smaller ones may be 0 in a float

enum class Ends { closed, open_above };

/// The flags, and which of them were given.
class Flags {
public:
    Flags() {
        app_.set_help_flag("-h,--help", "Print this and exit");
        app_.get_formatter()->column_width(44);
        for (Preset const& preset : presets) preset_names_.emplace_back(preset.name, std::string(preset.name));

        choose("--preset", also_.preset, preset_names_, "Sizes, batch and steps by name; other flags win (demo)");
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
        choose("--reduce-dtype", also_.wire, Words<ls::comm::Wire>{{"fp32", ls::comm::Wire::fp32}, {"bf16", ls::comm::Wire::bf16}},
               "Gradients on the wire");
        choose("--optimizer", s_.optimizer,
               Words<Optimizer>{{"sgd", Optimizer::sgd}, {"adam", Optimizer::adam}, {"adamw", Optimizer::adamw}}, "Optimizer");
        real("--lr", s_.schedule.learning_rate, 0, most_real, Ends::closed, "Learning rate");
        real("--beta1", s_.beta1, 0, 1, Ends::open_above, "Of Adam and AdamW");
        real("--beta2", s_.beta2, 0, 1, Ends::open_above, "Of Adam and AdamW");
        real("--eps", s_.eps, least_real, 1, Ends::closed, "Of Adam and AdamW");
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

        Words<Strategy> strategies;
        for (Strategy const strategy :
             {Strategy::single, Strategy::replicated, Strategy::sharded_optimizer, Strategy::sharded, Strategy::hybrid})
            strategies.emplace_back(std::string(train_gpt::name(strategy)), strategy);
        choose("--strategy", s_.strategy, strategies, "Parallelism (single on 1 rank, replicated on more)");
        count("--shard-group", s_.parallel.shard_group, 1, most_size,
              "Consecutive ranks that hold one model together, for hybrid (a node's)");
        reshard("--reshard", s_.parallel,
                "When gathered weights are freed: after use, with the version, or with it the last N units, which backward reads first");
        count("--prefetch", s_.parallel.prefetch, 0, ls::state::ModelSizes::most_layers, "Units gathered ahead of use");
        real("--bucket-mb", also_.bucket_mb, 0, 1e6, Ends::closed,
             "Gradient bucket of replicated in MB; 0: one parameter; the others reduce whole units");
        count("--unit-blocks", s_.unit_blocks, 0, ls::state::ModelSizes::most_layers,
              "Blocks that are gathered and reduced together; 0: the whole model");
        choose("--overlap", s_.parallel.overlap, on_off, "Communication during backward");
        choose("--progress", s_.parallel.progress,
               Words<ls::comm::Progress>{
                   {"auto", ls::comm::Progress::automatic}, {"thread", ls::comm::Progress::thread}, {"inside", ls::comm::Progress::inside}},
               "Who moves messages: a thread of its own, or the step between kernels (by cores and network)");
        choose("--reduction", s_.parallel.reduction,
               Words<ls::comm::Reduction>{{"ordered", ls::comm::Reduction::ordered}, {"vendor", ls::comm::Reduction::vendor}},
               "Who sums over the ranks: lockstep, the same bits for every cut, or MPI");
        choose("--accumulate", also_.accumulate,
               Words<ls::parallel::Accumulate>{{"local", ls::parallel::Accumulate::local}, {"sharded", ls::parallel::Accumulate::sharded}},
               "Where micro-steps add up: local holds whole gradients, sharded sends them in each (by strategy)");
        choose("--reproducible", s_.reproducible, on_off, "The same bits on 1, 2, 4, ... ranks, where --micro-batch is the same");
        choose("--recompute", s_.recompute, Words<bool>{{"none", false}, {"block", true}}, "Activation checkpointing");
        count("--threads", s_.threads, 1, 1024, "Threads of this rank (cores of the node / ranks on it)");
        choose("--isa", also_.isa,
               Words<std::string>{{"auto", "auto"}, {"amx", "amx"}, {"avx512", "avx512"}, {"avx2", "avx2"}, {"scalar", "scalar"}},
               "The best that kernels may use; what this machine or this program does not have is an error");

        name("--metrics", s_.metrics, "JSONL, one object a step");
        name("--trace", s_.trace, "Chrome/Perfetto trace of all ranks");
        steps("--trace-steps", s_.trace_first, s_.trace_last, "First and last step of the trace, and of the report's timeline (1:20)");
        name("--report", s_.report, "HTML report");
        name("--save", s_.save, "Folder of checkpoints: of the end of the run, and of every N-th step");
        count("--save-every", s_.save_every, 1, any_count, "Steps between checkpoints");
        count("--keep", s_.keep, 1, any_count, "Newest checkpoints that stay (all)");
        name("--resume", s_.resume, "Continue from the newest checkpoint of a folder, or from a checkpoint");
        name("--export", s_.export_dir, "Write model.safetensors and config.json at the end");
        count("--sample", s_.sample, 0, most_size, "Tokens generated at the end (200 on text)");
        text("--prompt", s_.prompt, "Start of the sample");
        real("--temperature", s_.temperature, 0, 1e6, Ends::closed, "Of the sample; 0: always the likeliest token");
        count("--max-skips", s_.max_skips, 1, any_count, "Skipped steps in a row after which the run gives up");
        count("--check-replicas-every", s_.check_replicas, 1, any_count, "Steps between comparisons of the ranks' parameters");
        real("--timeout", s_.parallel.timeout, 1e-3, most_timeout, Ends::closed, "Seconds that a collective may wait");
    }

    /// What one command line says; of it only the choice of kernels is left for the next.
    Settings read(int argc, char const* const* argv) {
        s_    = {};
        also_ = {};
        if (parse(argc, argv)) complete();
        return std::move(s_);
    }

private:
    /// Returns false where help was asked for.
    bool parse(int argc, char const* const* argv) {
        app_.allow_extras();
        try {
            app_.parse(argc, argv);
        } catch (CLI::CallForHelp const&) {
            s_.help = app_.help();
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
        if (given("--shard-group") && s_.strategy != Strategy::hybrid)
            ls::input_error("--shard-group: expected --strategy hybrid beside it, found ",
                            given("--strategy") ? train_gpt::name(s_.strategy) : "none");
        if (s_.parallel.reduction == ls::comm::Reduction::vendor && also_.wire == ls::comm::Wire::bf16)
            ls::input_error("--reduction: expected ordered with --reduce-dtype bf16, which the vendor rounds at every hop, found vendor");
        if (s_.reproducible) check_reproducible();
        s_.any_isa = also_.isa == "auto";
        if (!s_.any_isa) ls::kernel::use(kernel_family(), "--isa");
        s_.parallel.wire       = also_.wire;
        s_.parallel.accumulate = also_.accumulate;
        s_.prompt_given        = given("--prompt");

        apply_preset();
        apply_sizes();
        if (given("--trace-steps") && s_.trace.empty() && s_.report.empty())
            ls::input_error("--trace-steps: expected --trace or --report beside it, found neither");
        if (given("--trace-steps") && s_.trace_first > s_.steps)
            ls::input_error("--trace-steps: expected a first step of at most --steps ", s_.steps, ", found ", s_.trace_first);
        for (char const* flag : {"--save-every", "--keep"})
            if (given(flag) && s_.save.empty()) ls::input_error(flag, ": expected --save beside it, found none");
        s_.parallel.bucket_bytes = static_cast<std::size_t>(also_.bucket_mb * 1024 * 1024);
        s_.schedule.total        = s_.steps;
        list();
    }

    /// What --isa asks for. avx512 is both: products of bfloat16 in AVX-512 registers where that pays, and simd kernels that were compiled
    /// for it. These have one width, that of the instruction set for which the program was compiled.
    ls::kernel::Isa kernel_family() const {
        using ls::kernel::Isa;
#if defined(__AVX512F__)
        constexpr bool wide = true;
#else
        constexpr bool wide = false;
#endif
        if (also_.isa == "avx512" && ls::kernel::best_isa(Isa::avx512) != Isa::avx512 && !(wide && ls::kernel::arch::has_avx512()))
            ls::input_error("--isa: expected what this machine has and this program was compiled for, found avx512");
        if (also_.isa == "avx2" && wide)
            ls::input_error("--isa: expected another family in a program that was compiled for AVX-512, found avx2");
        if (also_.isa == "avx2" && !ls::kernel::arch::has_avx2_fma()) ls::input_error("--isa: expected what this machine has, found avx2");
        if (also_.isa == "avx512") return ls::kernel::best_isa(Isa::avx512);
        return also_.isa == "scalar" ? Isa::scalar : also_.isa == "amx" ? Isa::amx : Isa::simd;
    }

    inline static Words<bool> const on_off{{"on", true}, {"off", false}};

    static std::string shown(std::string const& written) { return written.empty() ? "nothing" : ls::io::printable(written); }

    /// A flag with what assigns its value and what says it: ranks compare what they say.
    template <class Assign, class Say>
    void add(char const* flag, std::string const& type, std::string const& help, Assign const& assign, Say const& say) {
        app_.add_option_function<std::string>(flag, assign, help)->type_name(type);
        said_.emplace_back(flag, say);
    }
    static std::string quoted(std::string const& text) { return text.empty() ? "none" : ls::io::printable(text, text.size()); }

    void text(char const* flag, std::string& value, char const* help) {
        auto const assign = [flag, &value](std::string const& written) {
            if (written.empty()) ls::input_error(flag, ": expected a text, found nothing");
            value = written;
        };
        add(flag, "TEXT", help, assign, [&value] { return quoted(value); });
    }
    void name(char const* flag, std::string& value, char const* help) {
        auto const assign = [flag, &value](std::string const& written) {  // names are part of messages of one line
            if (written.empty() || std::any_of(written.begin(), written.end(), [](unsigned char c) { return c < ' '; }))
                ls::input_error(flag, ": expected a name without control characters, found ", shown(written));
            value = written;
        };
        add(flag, "NAME", help, assign, [&value] { return quoted(value); });
    }
    template <class T>
    void count(char const* flag, T& value, std::uint64_t least, std::uint64_t most, char const* help) {
        auto const assign = [=, &value](std::string const& written) {
            std::uint64_t number   = 0;
            auto const [end, code] = std::from_chars(written.data(), written.data() + written.size(), number);
            if (code != std::errc() || end != written.data() + written.size() || number < least || number > most)
                ls::input_error(flag, ": expected a whole number from ", least, " to ", most, ", found ", shown(written));
            if constexpr (requires { value.emplace(); })
                value = static_cast<typename T::value_type>(number);
            else
                value = static_cast<T>(number);
        };
        add(flag, "N", help, assign, [&value] { return exact(value); });
    }
    /// "A:B", both of them included.
    void steps(char const* flag, std::uint64_t& first, std::uint64_t& last, char const* help) {
        auto const assign = [flag, &first, &last](std::string const& written) {
            std::uint64_t     a = 0, b = 0;
            char const* const stop = written.data() + written.size();
            auto const        from = std::from_chars(written.data(), stop, a);
            bool              good = from.ec == std::errc() && from.ptr != stop && *from.ptr == ':';
            if (good) {
                auto const to = std::from_chars(from.ptr + 1, stop, b);
                good          = to.ec == std::errc() && to.ptr == stop && a >= 1 && a <= b && b <= most_steps;
            }
            if (!good) ls::input_error(flag, ": expected two steps A:B with 1 <= A <= B <= ", most_steps, ", found ", shown(written));
            first = a;
            last  = b;
        };
        add(flag, "A:B", help, assign, [&first, &last] { return exact(first) + ':' + exact(last); });
    }
    void reshard(char const* flag, ls::parallel::Options& options, char const* help) {
        using ls::parallel::Reshard;
        auto const assign = [flag, &options](std::string const& written) {
            std::uint64_t number   = 0;
            auto const [end, code] = std::from_chars(written.data(), written.data() + written.size(), number);
            bool const counts      = code == std::errc() && end == written.data() + written.size() && number >= 1 &&
                                number <= ls::state::ModelSizes::most_layers;
            if (!counts && written != "always" && written != "never")
                ls::input_error(flag, ": expected always|never or a number of units from 1 to ", ls::state::ModelSizes::most_layers,
                                ", found ", shown(written));
            options.reshard = counts ? Reshard::keep_last : written == "always" ? Reshard::always : Reshard::never;
            options.kept    = counts ? static_cast<std::size_t>(number) : 1;
        };
        add(flag, "always|never|N", help, assign, [&options] { return train_gpt::name(options.reshard, options.kept); });
    }
    /// May be negative, as -100 is elsewhere: no token equals it.
    void label(char const* flag, std::optional<std::int32_t>& value, char const* help) {
        auto const assign = [=, &value](std::string const& written) {
            using Limits           = std::numeric_limits<std::int32_t>;
            std::int32_t number    = 0;
            auto const [end, code] = std::from_chars(written.data(), written.data() + written.size(), number);
            if (code != std::errc() || end != written.data() + written.size())
                ls::input_error(flag, ": expected a whole number from ", Limits::min(), " to ", Limits::max(), ", found ", shown(written));
            value = number;
        };
        add(flag, "N", help, assign, [&value] { return exact(value); });
    }
    template <class T>
    static std::string exact(T const& value) {
        if constexpr (requires { value.has_value(); })
            return value ? ls::exact_text(*value) : "none";
        else
            return ls::exact_text(value);
    }
    /// What is excluded must not be reached by rounding to a float either.
    template <class T>
    void real(char const* flag, T& value, double least, double most, Ends ends, char const* help) {
        auto const assign = [=, &value](std::string const& written) {
            double number          = 0;
            auto const [end, code] = std::from_chars(written.data(), written.data() + written.size(), number);
            bool const valid       = code == std::errc() && end == written.data() + written.size();  // NaN is in no interval
            if (!valid || !(number >= least && number <= most) ||
                (ends == Ends::open_above && static_cast<double>(static_cast<float>(number)) == most))
                ls::input_error(flag, ": expected a number from ", least, " to ", ends == Ends::open_above ? "below " : "", most,
                                ", found ", shown(written));
            value = static_cast<T>(number);
        };
        add(flag, "NUMBER", help, assign, [&value] { return exact(value); });
    }
    template <class T, class E>
    void choose(char const* flag, T& value, Words<E> const& words, char const* help) {
        std::string names;
        for (auto const& [word, meaning] : words) names += (names.empty() ? "" : "|") + word;
        auto const assign = [flag, &value, words, names](std::string const& written) {
            for (auto const& [word, meaning] : words)
                if (word == written) return static_cast<void>(value = meaning);
            ls::input_error(flag, ": expected ", names, ", found ", shown(written));
        };
        add(flag, names, help, assign, [&value, words] {
            for (auto const& [word, meaning] : words)
                if (value == meaning) return word;
            return std::string("none");
        });
    }

    void check_reproducible() const {
        auto const refuse = [](char const* expected, char const* found) {
            ls::input_error("--reproducible on: expected ", expected, ", found ", found);
        };
        if (s_.parallel.reduction == ls::comm::Reduction::vendor) refuse("--reduction ordered", "vendor");
        if (also_.wire == ls::comm::Wire::bf16) refuse("--reduce-dtype fp32", "bf16, to which the sum of each rank is rounded");
        if (also_.accumulate == ls::parallel::Accumulate::sharded) refuse("--accumulate local", "sharded");
    }

    /// Every flag with its value, or what stands in for it. Ranks may have different numbers of threads.
    void list() {
        for (auto const& [flag, say] : said_)
            if (flag != "--threads")
                s_.listed.push_back({flag, flag == "--isa" ? std::string(ls::kernel::name(ls::kernel::isa())) : say()});
    }

    bool given(std::string const& flag) const { return app_.count(flag) != 0; }

    template <class T>
    void unless_given(char const* flag, T& value, T from_preset) {
        if (!given(flag)) value = from_preset;
    }

    void apply_preset() {
        for (Preset const& preset : presets) {
            if (preset.name != also_.preset) continue;
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
        fs::path const  config = (fs::is_directory(path, failed) ? path : path.parent_path()) / "config.json";
        return fs::exists(fs::symlink_status(config, failed)) ? config : fs::path();  // a dangling link is refused where it is read
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

        ls::state::ModelSizes const file  = ls::io::read_config(ls::io::model_file(config, config.string()));
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

    /// What flags say that is no setting as it is.
    struct Also {
        std::string                             preset = "demo", isa = "auto";
        std::optional<ls::comm::Wire>           wire;
        std::optional<ls::parallel::Accumulate> accumulate;
        double                                  bucket_mb = 25;
    };

    Settings           s_;
    Also               also_;
    CLI::App           app_{"train_gpt: trains a GPT on one or more ranks (mpiexec -n P train_gpt ...)", "train_gpt"};
    Words<std::string> preset_names_;

    std::vector<std::pair<std::string, std::function<std::string()>>> said_;  // flags, and what says their values
};

}  // namespace

Settings parse(int argc, char const* const* argv) {
    static Flags flags;  // CLI11 compares each new name with all others, which takes longer than any command line
    return flags.read(argc, argv);
}

}  // namespace train_gpt
