// An optimizer of your own is one struct: it declares its state and updates a slice. Everything else (sharding, mixed precision,
// clipping, loss scaling) is there already. This is Lion; the program trains a tiny GPT with it.

#include <cstdio>

#include "lockstep/data/token_stream.hpp"
#include "lockstep/nn/gpt2.hpp"
#include "lockstep/parallel/single.hpp"
#include "lockstep/train/trainer.hpp"

namespace ls = lockstep;

/// Lion: step along the sign of an interpolated momentum (Chen et al. 2023, arXiv:2302.06675).
struct Lion {
    static constexpr std::size_t state_slots = 1;  // momentum

    float beta1        = 0.9f;
    float beta2        = 0.99f;
    float weight_decay = 0.1f;

    /// Updates one owned slice in place; element i depends on element i only.
    template <ls::precision::master_element T>
    void update(ls::optim::Slice<T> slice, ls::optim::Slots<Lion, T> slots, ls::optim::StepInfo step) const noexcept {
        auto const [momentum] = slots;
        T const rate          = static_cast<T>(step.learning_rate);
        T const scale         = static_cast<T>(step.gradient_scale);
        T const keep          = slice.parameter.decays ? 1 - rate * T(weight_decay) : T(1);
        for (std::size_t i = 0; i < slice.size(); ++i) {
            T const gradient  = scale * slice.gradients[i];
            T const direction = T(beta1) * momentum[i] + (1 - T(beta1)) * gradient;
            momentum[i]       = T(beta2) * momentum[i] + (1 - T(beta2)) * gradient;
            slice.values[i]   = keep * slice.values[i] - rate * static_cast<T>((direction > 0) - (direction < 0));
        }
    }
};
template <>
inline constexpr bool ls::optim::enable_elementwise<Lion> = true;  // so it can be sharded
static_assert(ls::optim::optimizer<Lion, float>,
              "Lion must declare `state_slots` and a const noexcept `update(slice, slots, step)`; see lockstep/optim/optimizer.hpp");

int main() {
    using Trainer = ls::Trainer<ls::nn::Gpt2<ls::tensor::ArenaStorage>, ls::precision::Fp32, Lion, ls::parallel::Single>;
    Trainer trainer{{.layers = 2, .heads = 2, .kv_heads = 2, .dim = 32, .ffn = 128, .sequence = 32}, Lion{.weight_decay = 0.01f}};

    auto const text =
        ls::data::Tokens::bytes("How much wood would a woodchuck chuck if a woodchuck could chuck wood? As much as a woodchuck could.");
    ls::data::TokenStream stream{text, {.sequence = 32, .global_batch = 4, .last_step = 100}};

    double first = 0, last = 0;
    for (ls::data::Batch const& batch : stream) {
        auto const step = trainer.step(batch, 1e-3);
        last            = step.loss;
        if (step.version == 1) first = step.loss;
        if (step.version == 1 || step.version % 10 == 0) std::printf("step %3d   loss %.4f\n", static_cast<int>(step.version), step.loss);
    }
    std::printf("Lion took the loss from %.2f to %.2f.\n", first, last);
    return last < 0.5 * first ? 0 : 1;
}
