#pragma once
// Published sizes of GPT-2, apart from the model so that they cost no compile time.

#include "lockstep/state/model_sizes.hpp"

namespace lockstep::nn {

/// GPT-2 small: 124 million parameters.
inline constexpr state::ModelSizes gpt2_124m{.arch     = state::Architecture::gpt2,
                                             .layers   = 12,
                                             .heads    = 12,
                                             .kv_heads = 12,
                                             .dim      = 768,
                                             .ffn      = 3072,
                                             .vocab    = 50257,
                                             .sequence = 1024};

}  // namespace lockstep::nn
