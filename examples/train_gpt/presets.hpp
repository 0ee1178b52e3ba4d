#pragma once
// Complete configurations by name. A flag that is given wins over the preset.

#include <array>
#include <string_view>

#include "lockstep/nn/gpt2_sizes.hpp"
#include "settings.hpp"

namespace train_gpt {

struct Preset {
    std::string_view            name;
    lockstep::state::ModelSizes sizes;
    std::size_t                 global_batch;
    std::size_t                 most_rows;  // of a micro-batch, where --micro-batch is not given
    std::uint64_t               steps;
    std::uint64_t               eval_every;
    lockstep::optim::Schedule   schedule = {};
    double                      beta2    = 0.95;
};

inline constexpr std::array presets{
    Preset{.name         = "demo",
           .sizes        = {.layers = 4, .heads = 4, .kv_heads = 4, .dim = 128, .ffn = 512, .vocab = 256, .sequence = 128},
           .global_batch = 16,
           .most_rows    = 16,
           .steps        = 1200,
           .eval_every   = 250},
    Preset{.name         = "shakespeare-cpu",
           .sizes        = {.layers = 4, .heads = 4, .kv_heads = 4, .dim = 128, .ffn = 512, .vocab = 256, .sequence = 64},
           .global_batch = 12,
           .most_rows    = 12,
           .steps        = 2000,
           .eval_every   = 250,
           .schedule     = {.learning_rate = 1e-3, .shape = lockstep::optim::Shape::cosine, .warmup = 100, .min_ratio = 0.1},
           .beta2        = 0.99},
    Preset{.name         = "shakespeare",
           .sizes        = {.layers = 6, .heads = 6, .kv_heads = 6, .dim = 384, .ffn = 1536, .vocab = 256, .sequence = 256},
           .global_batch = 64,
           .most_rows    = 16,
           .steps        = 5000,
           .eval_every   = 250,
           .schedule     = {.learning_rate = 1e-3, .shape = lockstep::optim::Shape::cosine, .warmup = 100, .min_ratio = 0.1},
           .beta2        = 0.99},
    Preset{.name = "gpt2-124m", .sizes = lockstep::nn::gpt2_124m, .global_batch = 8, .most_rows = 4, .steps = 100, .eval_every = 0},
};

}  // namespace train_gpt
