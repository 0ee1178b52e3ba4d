// A program of your own: choose the policies, train on text. Alone, or on two ranks:
//   minimal [file]        mpiexec -n 2 minimal [file]

#include <cstdio>

#include "lockstep/comm/environment.hpp"
#include "lockstep/data/token_stream.hpp"
#include "lockstep/nn/gpt2.hpp"
#include "lockstep/optim/adamw.hpp"
#include "lockstep/optim/schedule.hpp"
#include "lockstep/parallel/sharded.hpp"
#include "lockstep/train/trainer.hpp"

namespace ls = lockstep;

using Trainer = ls::Trainer<ls::nn::Gpt2<ls::tensor::ArenaStorage>,  // structure in the type, sizes at run time
                            ls::precision::Bf16,                     // compute bf16, masters and sums fp32
                            ls::optim::AdamW,
                            ls::parallel::Sharded<>>;  // every rank keeps its shard of everything

int main(int argc, char** argv) {
    ls::comm::Environment mpi{argc, argv};
    return mpi.run([&] {
        auto const rank = static_cast<std::size_t>(mpi.world().rank()), ranks = static_cast<std::size_t>(mpi.world().size());
        auto const text =
            argc > 1 ? ls::data::Tokens::text(argv[1])
                     : ls::data::Tokens::bytes("She sells sea shells by the sea shore. The shells she sells are sea shells, I'm sure.");

        ls::data::TokenStream stream{text, {.sequence = 32, .global_batch = 4 * ranks, .rank = rank, .ranks = ranks, .last_step = 100}};
        ls::optim::Schedule   schedule{.learning_rate = 3e-3, .shape = ls::optim::Shape::cosine, .warmup = 10, .total = 100};
        Trainer               trainer{{.layers = 2, .heads = 4, .kv_heads = 4, .dim = 64, .ffn = 256, .sequence = 32},
                        ls::optim::AdamW{.weight_decay = 0.1},
                        mpi.world()};

        for (ls::data::Batch const& batch : stream) {
            ls::StepResult const step = trainer.step(batch, schedule(trainer.version()));
            if (rank == 0 && step.version % 10 == 0)
                std::printf("step %3zu   loss %.4f   gradient norm %.3f\n", static_cast<std::size_t>(step.version), step.loss,
                            step.gradient_norm);
        }
        return 0;
    });
}
