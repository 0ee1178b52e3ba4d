// Predicted activations against those that a step books: storage that holds exactly what is in use.

#include "lockstep/plan/memory.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "lockstep/nn/gpt2.hpp"
#include "lockstep/nn/llama.hpp"
#include "lockstep/optim/sgd.hpp"
#include "lockstep/tensor/xtensor_storage.hpp"
#include "lockstep/train/trainer.hpp"

namespace memory_test {

using namespace lockstep;

template <class Model, class Precision>
double measured(state::ModelSizes const& sizes, std::size_t rows, std::size_t sequence, bool recompute) {
    Trainer<Model, Precision, optim::Sgd, parallel::Single> trainer(sizes, {}, {.threads = 1, .model = {.recompute = recompute}});
    std::vector<std::int32_t> const                         ids(rows * sequence, 1);
    auto const result = trainer.step({.sequences = rows, .length = sequence, .first_sample = 0, .tokens = ids, .labels = ids}, 0);
    return static_cast<double>(result.memory.held[observe::Category::activations]);
}

template <class Model, class Precision>
void check_prediction(state::ModelSizes const& sizes) {
    for (bool const recompute : {false, true})
        for (auto const& [rows, sequence] : {std::pair<std::size_t, std::size_t>{1, 32}, {3, 16}}) {
            double const found = measured<Model, Precision>(sizes, rows, sequence, recompute);
            double const predicted =
                static_cast<double>(plan::activation_bytes(sizes, rows, sequence, sizeof(typename Precision::compute), recompute,
                                                           kernel::logit_storage<typename Precision::compute>()));
            auto const batch = rows;
            CAPTURE(recompute);
            CAPTURE(batch);
            CAPTURE(sizes.layers);
            CAPTURE(sizes.vocab);
            CHECK(predicted == doctest::Approx(found).epsilon(0.1));
        }
}

state::ModelSizes gpt2(std::size_t layers, std::size_t vocab) {
    return {.layers = layers, .heads = 4, .kv_heads = 4, .dim = 64, .ffn = 256, .vocab = vocab, .sequence = 32};
}
state::ModelSizes llama(std::size_t layers, std::size_t vocab) {
    return {.arch     = state::Architecture::llama,
            .layers   = layers,
            .heads    = 4,
            .kv_heads = 2,
            .dim      = 64,
            .ffn      = 128,
            .vocab    = vocab,
            .sequence = 32,
            .tied     = false};
}

TEST_CASE("the activations of a step are predicted within a tenth") {
    for (std::size_t const layers : {1u, 4u})
        for (std::size_t const vocab : {50u, 1000u}) {
            check_prediction<nn::Gpt2<tensor::XtensorStorage>, precision::Fp32>(gpt2(layers, vocab));
            check_prediction<nn::Gpt2<tensor::XtensorStorage>, precision::Bf16>(gpt2(layers, vocab));
            check_prediction<nn::Llama<tensor::XtensorStorage>, precision::Bf16>(llama(layers, vocab));
        }
}

}  // namespace memory_test
