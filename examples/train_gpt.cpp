// train_gpt: trains a GPT on one or more ranks. `train_gpt --help` lists its flags.

#include "lockstep/comm/environment.hpp"
#include "lockstep/plan/flops.hpp"
#include "lockstep/report/machine.hpp"
#include "lockstep/runtime/cores.hpp"
#include "run.hpp"

namespace {

using namespace train_gpt;

/// What only the number of ranks decides: threads, strategy, micro-batch.
void complete(Settings& settings, lockstep::comm::Communicator const& world) {
    auto const ranks = static_cast<std::size_t>(world.size());
    if (settings.threads == 0) settings.threads = lockstep::runtime::threads_for(world.node().size());
    if (settings.strategy == Strategy::automatic) settings.strategy = ranks == 1 ? Strategy::single : Strategy::replicated;
    if (settings.strategy == Strategy::single && ranks != 1) lockstep::input_error("--strategy single: expected 1 rank, found ", ranks);
    if (settings.global_batch % ranks != 0)
        lockstep::input_error("--global-batch: expected a multiple of ", ranks, " ranks, found ", settings.global_batch);
    std::size_t const rows = settings.global_batch / ranks;
    if (settings.micro_batch == 0) {
        settings.micro_batch = std::min(rows, settings.most_rows);
        while (rows % settings.micro_batch != 0) --settings.micro_batch;
    }
    if (rows % settings.micro_batch != 0)
        lockstep::input_error("--global-batch: expected a multiple of --micro-batch x ranks = ", settings.micro_batch, " x ", ranks,
                              ", found ", settings.global_batch);
}

/// What is sure to be needed (masters, gradients, optimizer state, activations, batch) must be there: the run would die of it later, and
/// say less.
void check_memory(Settings const& s, lockstep::comm::Communicator const& world) {
    auto const machine = lockstep::report::this_machine();
    if (!machine.memory_bytes) return;
    auto const   number = [](std::size_t size) { return static_cast<double>(size); };
    double const ranks = world.size(), here = world.node().size(), rows = number(s.global_batch) / ranks, length = number(s.sequence);
    double const compute = s.precision == Precision::fp32 ? 4 : 2, slots = s.optimizer == Optimizer::sgd ? 1 : 2;
    double const state =
        number(lockstep::plan::parameter_count(s.sizes)) * (4 + 4 + 4 * slots) / (s.strategy == Strategy::sharded ? ranks : 1);
    double const saved = number(s.micro_batch) * length * number(s.sizes.layers * s.sizes.dim) * compute * (s.recompute ? 1 : 6);
    double const needs = (state + saved + rows * length * 2 * sizeof(std::int32_t)) * here;
    if (needs > static_cast<double>(*machine.memory_bytes))
        lockstep::input_error("--layers --dim --ffn --vocab --seq --global-batch --micro-batch: expected what fits into the ",
                              lockstep::report::readable_bytes(*machine.memory_bytes), " of this machine, found a need of at least ",
                              needs / 0x1p30, " GiB");
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

int main(int argc, char** argv) {
    lockstep::comm::Environment mpi(argc, argv);
    return mpi.run([&] {
        auto settings = parse(argc, argv, mpi.world().rank() == 0);
        if (!settings) return 0;
        complete(*settings, mpi.world());
        check_memory(*settings, mpi.world());
        return run(*settings, mpi.world(), maker(settings->precision));
    });
}
