#include "communication.hpp"

#include "lockstep/parallel/pools.hpp"
#include "lockstep/parallel/unit_shards.hpp"
#include "lockstep/report/readable.hpp"

namespace train_gpt {

namespace ls = lockstep;

namespace {

/// "micro-steps add up in the shards: 1.2 MiB of whole gradients here, 35 MiB of them sent a step (--accumulate local: ...)".
std::string describe_accumulation(Settings const& s, AnyTrainer const& trainer) {
    using ls::parallel::Accumulate;
    std::span<ls::state::Unit const> const units = trainer.units();
    std::size_t const                      group = s.strategy == Strategy::hybrid ? s.parallel.shard_group : trainer.ranks();
    ls::parallel::UnitShards const         shards(units, group, trainer.rank() % group);
    std::size_t const                      steps   = s.global_batch / trainer.ranks() / s.micro_batch;
    std::size_t const                      element = ls::parallel::wire_bytes<float>(s.parallel.wire.value_or(ls::comm::Wire::fp32));
    auto const                             costs   = [&](Accumulate where) {
        ls::parallel::Options options = s.parallel;
        options.accumulate            = where;
        std::size_t sent              = 0;
        for (std::size_t unit = 0; unit < units.size(); ++unit) sent += shards.scattered_bytes(unit, element);
        return ls::report::readable_bytes(ls::parallel::full_gradient_elements(units, options) * sizeof(float)) +
               " of whole gradients here, " + ls::report::readable_bytes(sent * (where == Accumulate::sharded ? steps : 1)) +
               " of them sent a step" + (s.strategy == Strategy::hybrid ? " inside the group" : "");
    };
    bool const local = s.reproducible || s.parallel.accumulate == Accumulate::local;
    return std::string("micro-steps add up ") + (local ? "here" : "in the shards") + ": " +
           costs(local ? Accumulate::local : Accumulate::sharded) + " (--accumulate " + (local ? "sharded" : "local") + ": " +
           costs(local ? Accumulate::sharded : Accumulate::local) + ")";
}

}  // namespace

std::string describe_communication(Settings const& s, AnyTrainer const& trainer) {
    auto const& options = s.parallel;
    std::string text =
        ls::sentence("progress ", trainer.progress(), options.progress == ls::comm::Progress::automatic ? " (by cores and network)" : "",
                     ", overlap ", options.overlap ? "on" : "off", ", ",
                     options.reduction == ls::comm::Reduction::vendor ? "the vendor's sums, which nothing overtakes" : "ordered sums");
    if (s.strategy == Strategy::replicated) text += ls::sentence(", buckets of ", ls::report::readable_bytes(options.bucket_bytes));
    if (s.strategy != Strategy::sharded && s.strategy != Strategy::hybrid) return text;
    text += ls::sentence(", reshard ", name(options.reshard, options.kept), ", ", options.overlap ? options.prefetch : 0, " units ahead; ");
    return text + describe_accumulation(s, trainer);
}

}  // namespace train_gpt
