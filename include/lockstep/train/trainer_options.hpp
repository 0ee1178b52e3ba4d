#pragma once
// What a trainer is built with besides its policies.

#include <cstddef>
#include <cstdint>

#include "lockstep/core/assertion.hpp"
#include "lockstep/kernel/weight_copies.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/optim/groups.hpp"
#include "lockstep/optim/loss_scale.hpp"
#include "lockstep/parallel/strategy.hpp"

namespace lockstep {

struct TrainerOptions {
    std::uint64_t          seed         = 1337;
    std::size_t            micro_batch  = 0;      // sequences of one forward; 0: all that a step brings
    double                 max_norm     = 1.0;    // gradients are clipped to it; 0: never
    int                    threads      = 0;      // of this rank; 0: its share of the node's cores
    bool                   reproducible = false;  // the same bits on 1, 2, 4, ... ranks with the same micro-batch; see gradient_tree.hpp
    nn::ModelOptions       model        = {};
    parallel::Options      strategy     = {};
    optim::ParameterGroups groups       = {};
    optim::LossScaling     loss_scale   = {};
};

/// With what the compute type and other options decide where nothing was said. Numbers that mean nothing are errors.
template <class Compute>
TrainerOptions completed(TrainerOptions options) {
    require(options.max_norm >= 0, "Trainer: max_norm must be at least 0, which clips never, found ", options.max_norm);
    require(options.threads >= 0, "Trainer: threads must be at least 0, which takes this rank's share of the cores, found ",
            options.threads);
    optim::LossScaling const& scale = options.loss_scale;
    require(scale.initial > 0 && scale.growth >= 1 && scale.backoff > 0 && scale.backoff <= 1 && scale.interval > 0,
            "Trainer: loss_scale must begin above 0, grow by 1 or more, back off to at most 1 and above 0, after 1 step or more, found ",
            scale.initial, ", ", scale.growth, ", ", scale.backoff, ", ", scale.interval);
    if (!options.model.layout) options.model.layout = kernel::weight_layout<Compute>();
    if (options.reproducible && !options.strategy.accumulate) options.strategy.accumulate = parallel::Accumulate::local;
    return options;
}

}  // namespace lockstep
