#pragma once
// What the flags of train_gpt say, checked.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/sampler.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/optim/schedule.hpp"
#include "lockstep/parallel/strategy.hpp"
#include "lockstep/state/model_sizes.hpp"
#include "lockstep/train/agreement.hpp"

namespace train_gpt {

enum class Precision { fp32, bf16, fp16 };
enum class Optimizer { sgd, adam, adamw };
enum class Strategy { automatic, single, replicated, sharded_optimizer, sharded, hybrid };

constexpr std::string_view name(Strategy strategy) noexcept {
    constexpr std::string_view names[]{"automatic", "single", "replicated", "sharded-optimizer", "sharded", "hybrid"};
    return names[static_cast<std::size_t>(strategy)];
}

/// "always", "never", or how many units stay.
inline std::string name(lockstep::parallel::Reshard reshard, std::size_t kept) {
    using lockstep::parallel::Reshard;
    return reshard == Reshard::always ? "always" : reshard == Reshard::never ? "never" : std::to_string(kept);
}

struct Settings {
    // data
    std::string                 data;      // empty: the project's own sources
    std::string                 val_data;  // empty: the end of `data`
    double                      val_fraction = 0.1;
    std::uint64_t               eval_every   = 0;      // 0: never
    bool                        eval_asked   = false;  // by a flag, not by a preset
    std::optional<std::int32_t> ignore_label;
    lockstep::data::Order       order = lockstep::data::Order::shuffled;
    std::uint64_t               seed  = 1337;

    // model
    lockstep::state::ModelSizes sizes;
    std::size_t                 sequence    = 0;  // T of a training sequence, at most sizes.sequence
    float                       dropout     = 0;
    bool                        recompute   = false;
    std::size_t                 unit_blocks = 1;  // 0: the whole model is one unit
    std::string                 init;             // empty: random

    // step
    std::size_t               global_batch = 0;
    std::size_t               micro_batch  = 0;  // sequences of one forward; 0: as many as the preset allows
    std::size_t               most_rows    = 0;  // the preset's limit on it
    Precision                 precision    = Precision::bf16;
    Optimizer                 optimizer    = Optimizer::adamw;
    double                    beta1 = 0.9, beta2 = 0.95, eps = 1e-8, momentum = 0.9, weight_decay = 0.1, clip = 1.0;
    lockstep::optim::Schedule schedule;
    std::uint64_t             steps = 0;

    // ranks and threads
    Strategy                    strategy = Strategy::automatic;
    lockstep::parallel::Options parallel;
    bool                        reproducible = false;
    int                         threads      = 0;  // 0: an equal share of the node's cores

    // results
    std::string                metrics;
    std::string                trace;
    std::string                report;
    std::uint64_t              trace_first = 1, trace_last = 20;  // versions that the recorded steps lead to
    std::string                export_dir;
    std::string                save;                  // folder of checkpoints; empty: none
    std::uint64_t              save_every     = 0;    // steps; 0: at the end only
    std::size_t                keep           = 0;    // newest checkpoints; 0: all
    std::uint64_t              max_skips      = 100;  // in a row, then the run gives up
    std::uint64_t              check_replicas = 100;  // steps between checks that all ranks hold the same
    std::string                resume;                // empty: from the beginning
    std::optional<std::size_t> sample;                // empty: 200 on text, none else
    std::string                prompt       = "\n";
    bool                       prompt_given = false;
    double                     temperature  = 0.8;

    std::string                    help;            // where it was asked for; then nothing else counts
    bool                           any_isa = true;  // --isa auto
    std::vector<lockstep::Setting> listed;          // flags and their values, which must be the same on all ranks
};

/// Parses the command line.
Settings parse(int argc, char const* const* argv);

}  // namespace train_gpt
