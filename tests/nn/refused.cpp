// Compositions that would write over something that is still needed.

#include "lockstep/nn/attention.hpp"
#include "lockstep/nn/dropout.hpp"
#include "lockstep/nn/linear.hpp"
#include "lockstep/nn/recompute.hpp"
#include "lockstep/nn/residual.hpp"
#include "lockstep/nn/sequential.hpp"

using namespace lockstep::nn;

#if defined(OVERWRITES_FIRST)
template class lockstep::nn::Sequential<Dropout, Linear>;
#elif defined(OVERWRITES_KEPT)
template class lockstep::nn::Sequential<Linear, CausalAttention, Dropout>;
#elif defined(SPOILS_LAST)
template class lockstep::nn::Sequential<Linear, Rotary>;
#elif defined(RESIDUAL_OVERWRITES)
template struct lockstep::nn::Residual<Dropout>;
#elif defined(RECOMPUTE_OVERWRITES)
template struct lockstep::nn::Recompute<Rotary>;
#else
static_assert(module<Sequential<Linear, Rotary, CausalAttention, Linear, Dropout>>);
static_assert(module<Residual<Sequential<Linear, Dropout>>>);
static_assert(module<Recompute<Residual<Linear>>>);
#endif
