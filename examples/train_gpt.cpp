// train_gpt: trains a GPT on one or more ranks. `train_gpt --help` lists its flags.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <optional>
#include <string>

#include "last_events.hpp"
#include "lockstep/comm/environment.hpp"
#include "lockstep/core/escape.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/plan/flops.hpp"
#include "lockstep/report/machine.hpp"
#include "lockstep/runtime/cores.hpp"
#include "lockstep/train/agreement.hpp"
#include "machine.hpp"
#include "run.hpp"
#include "stopping.hpp"

namespace {

using namespace train_gpt;

bool in_shards(Strategy strategy) { return strategy == Strategy::sharded || strategy == Strategy::hybrid; }

/// Where no rank was told by --isa all use what each of them would choose at least. Collective.
void share_kernels(Settings& settings, lockstep::comm::Communicator const& world) {
    if (!world.min(static_cast<int>(settings.any_isa))) return;
    std::string_view const shared = name(lockstep::share_kernels(world));
    for (lockstep::Setting& setting : settings.listed)
        if (setting.name == "--isa") setting.value = shared;
}

/// What only the number of ranks decides: threads, strategy, groups, micro-batch.
void complete(Settings& settings, lockstep::comm::Communicator const& world) {
    auto const ranks = static_cast<std::size_t>(world.size());
    int const  here  = world.node().size();  // collective, so whatever the flags
    bool const alike = world.min(here) == world.max(here);
    if (settings.threads == 0) settings.threads = lockstep::runtime::threads_for(here);
    if (settings.strategy == Strategy::automatic) settings.strategy = ranks == 1 ? Strategy::single : Strategy::replicated;
    if (settings.strategy == Strategy::single && ranks != 1) lockstep::input_error("--strategy single: expected 1 rank, found ", ranks);
    if (!in_shards(settings.strategy) && settings.parallel.accumulate == lockstep::parallel::Accumulate::sharded)
        lockstep::input_error("--accumulate sharded: expected --strategy sharded or hybrid, found ", name(settings.strategy),
                              ", whose ranks hold whole gradients");
    if (std::size_t& group = settings.parallel.shard_group; settings.strategy == Strategy::hybrid) {
        if (group == 0) group = alike && ranks % static_cast<std::size_t>(here) == 0 ? static_cast<std::size_t>(here) : ranks;
        if (ranks % group != 0) lockstep::input_error("--shard-group: expected a divisor of ", ranks, " ranks, found ", group);
    }
    if (settings.reproducible && (ranks & (ranks - 1)) != 0)
        lockstep::input_error("--reproducible on: expected a power of two of ranks, found ", ranks);
    if (settings.global_batch % ranks != 0)
        lockstep::input_error("--global-batch: expected a multiple of ", ranks, " ranks, found ", settings.global_batch);
    if (ranks == 1) settings.parallel.wire = lockstep::comm::Wire::fp32;  // nothing travels, so nothing is rounded
    std::size_t const rows = settings.global_batch / ranks;
    if (settings.micro_batch == 0) {  // reproducible: what 1, 2 and 4 ranks can have alike
        std::size_t const shares = settings.reproducible ? std::max(ranks, std::gcd(settings.global_batch, std::size_t{4})) : ranks;
        std::size_t const share  = settings.global_batch / shares;
        settings.micro_batch     = std::min(share, settings.most_rows);
        while (share % settings.micro_batch != 0) --settings.micro_batch;
    }
    if (rows % settings.micro_batch != 0)
        lockstep::input_error("--global-batch: expected a multiple of --micro-batch x ranks = ", settings.micro_batch, " x ", ranks,
                              ", found ", settings.global_batch);
}

/// What is sure to be needed (masters, gradients, optimizer state, its copy for checkpoints, activations, batch) must be there: the run
/// would die of it later, and say less. `here` counts the ranks of the node.
void check_memory(Settings const& s, double ranks, double here) {
    auto const   number = [](std::size_t size) { return static_cast<double>(size); };
    double const rows = number(s.global_batch) / ranks, length = number(s.sequence);
    double const compute = s.precision == Precision::fp32 ? 4 : 2, slots = s.optimizer == Optimizer::sgd ? 1 : 2;
    double const parts = s.strategy == Strategy::hybrid                                                 ? number(s.parallel.shard_group)
                         : s.strategy == Strategy::sharded || s.strategy == Strategy::sharded_optimizer ? ranks
                                                                                                        : 1;
    double const state =
        number(lockstep::plan::parameter_count(s.sizes)) * ((4 + 4 * slots) / parts + 4 / (in_shards(s.strategy) ? parts : 1));
    double const saved = number(s.micro_batch) * length * number(s.sizes.layers * s.sizes.dim) * compute * (s.recompute ? 1 : 6);
    double const copy  = s.save.empty() ? 0 : number(lockstep::plan::parameter_count(s.sizes)) * (4 + 4 * slots) / ranks;
    double const needs = state + copy + saved + rows * length * 2 * sizeof(std::int32_t);
    for (lockstep::report::MemoryLimit const& limit : lockstep::report::memory_limits()) {
        double const needed = needs * (limit.of_a_process ? 1 : here);
        if (needed > static_cast<double>(limit.bytes))
            lockstep::input_error("--layers --dim --ffn --vocab --seq --global-batch --micro-batch: expected what fits into the ",
                                  lockstep::report::readable_bytes(limit.bytes), " of ", limit.what, ", found a need of at least ",
                                  needed / 0x1p30, " GiB");
    }
}

MakeTrainer* maker(Precision precision) {
    switch (precision) {
        case Precision::fp32:
            return make_fp32_trainer;
        case Precision::fp16:
            return make_fp16_trainer;
        default:
            return make_bf16_trainer;
    }
}

}  // namespace

int main(int argc, char** argv) try {
    std::signal(SIGPIPE, SIG_IGN);  // a run goes on when nobody reads what it prints
    std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error like a full disk
    catch_stop_signals();
    static_cast<void>(lockstep::kernel::isa());  // asks for the tile unit before somebody installs a small signal stack
    Settings                    settings;
    std::optional<LastEvents>   events;
    lockstep::Failure const     wrong_flags = lockstep::Failure::of([&] { settings = parse(argc, argv); });
    lockstep::comm::Environment mpi(argc, argv, settings.parallel.timeout);
    return mpi.run([&] {
        using lockstep::Setting;
        int code = 0;
        lockstep::agree(mpi.world(), std::vector<Setting>{{"lockstep", LOCKSTEP_VERSION}}, "start the same program on all ranks");
        lockstep::share_failure(mpi.world(), wrong_flags);
        auto const        world  = mpi.world().with_timeout(settings.parallel.timeout);
        std::string const advice = "give all ranks the same flags";
        lockstep::agree(world, std::vector<Setting>{{"--help", settings.help.empty() ? "not been asked" : "been asked"}}, advice);
        if (!settings.help.empty()) {
            if (world.rank() == 0) std::fputs(settings.help.c_str(), stdout);
        } else {
            share_kernels(settings, world);
            lockstep::agree(world, settings.listed, advice);
            complete(settings, world);
            int const here = world.node().size();
            lockstep::together(world, [&] { check_memory(settings, world.size(), here); });
            events.emplace(settings, world);
            mpi.last_words = [&] { events->leave(); };
            mpi.farewell   = std::chrono::seconds(4);
            mpi.silence    = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * std::max(2.0, settings.parallel.timeout)));
            try {
                code = run(settings, world, maker(settings.precision), *events);
            } catch (lockstep::Error const& error) {
                if (error.fault() == lockstep::Fault::peer) events->leave();
                throw;
            }
        }
        if (world.rank() == 0) report_lost_output();
        return code;
    });
} catch (lockstep::Error const& error) {  // before the ranks were joined, or when they part: `mpi.run` tells of all others
    std::fprintf(stderr, "%s\n", lockstep::escaped(error.what()).c_str());
    return static_cast<int>(error.fault());
} catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", lockstep::escaped(error.what()).c_str());
    return static_cast<int>(lockstep::Fault::peer);
}
