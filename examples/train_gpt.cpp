// train_gpt: trains a GPT on one or more ranks. `train_gpt --help` lists its flags.

#include "lockstep/comm/environment.hpp"
#include "lockstep/runtime/cores.hpp"
#include "train_gpt/models.hpp"

namespace {

using namespace train_gpt;

/// What only the number of ranks decides: threads, strategy, micro-batch.
void complete(Settings& settings, lockstep::comm::Communicator const& world) {
    auto const ranks = static_cast<std::size_t>(world.size());
    if (settings.threads == 0) settings.threads = lockstep::runtime::threads_for(world.node().size());
    if (settings.strategy == Strategy::automatic) settings.strategy = ranks == 1 ? Strategy::single : Strategy::replicated;
    if (settings.strategy == Strategy::single && ranks != 1) lockstep::input_error("--strategy single: expected 1 rank, found ", ranks);
    if (settings.global_batch % ranks != 0) lockstep::input_error("--global-batch: expected a multiple of ", ranks, " ranks, found ", settings.global_batch);
    std::size_t const rows = settings.global_batch / ranks;
    if (settings.micro_batch == 0) {
        settings.micro_batch = std::min(rows, settings.most_rows);
        while (rows % settings.micro_batch != 0) --settings.micro_batch;
    }
    if (rows % settings.micro_batch != 0)
        lockstep::input_error("--global-batch: expected a multiple of micro-batch x ranks = ", settings.micro_batch, " x ", ranks, ", found ", settings.global_batch);
}

int run_model(Settings const& settings, lockstep::comm::Communicator const& world) {
    bool const gpt2 = settings.sizes.arch == lockstep::state::Architecture::gpt2;
    switch (settings.precision) {
        case Precision::fp32: return gpt2 ? run_gpt2_fp32(settings, world) : run_llama_fp32(settings, world);
        case Precision::fp16: return gpt2 ? run_gpt2_fp16(settings, world) : run_llama_fp16(settings, world);
        default: return gpt2 ? run_gpt2_bf16(settings, world) : run_llama_bf16(settings, world);
    }
}

}  // namespace

int main(int argc, char** argv) {
    lockstep::comm::Environment mpi(argc, argv);
    return mpi.run([&] {
        auto settings = parse(argc, argv, mpi.world().rank() == 0);
        if (!settings) return 0;
        complete(*settings, mpi.world());
        return run_model(*settings, mpi.world());
    });
}
