// Compositions of what is no module, or that would write over something that is still needed.

#include "lockstep/nn/attention.hpp"
#include "lockstep/nn/dropout.hpp"
#include "lockstep/nn/gpt2.hpp"
#include "lockstep/nn/linear.hpp"
#include "lockstep/nn/recompute.hpp"
#include "lockstep/nn/residual.hpp"
#include "lockstep/nn/sequential.hpp"

using namespace lockstep::nn;

namespace {

/// Near misses: each lacks one requirement.
struct WithoutBackward {
    template <class T>
    struct Saved {};
    void declare(Declaration&) {}
    template <class P, class T = typename P::element>
    View<T, 2> forward(P&, View<T, 2> x, Saved<T>&) const {
        return x;
    }
    template <class T, class F>
    void inspect(Saved<T> const&, F&&) const {}
};
struct WithBackward : WithoutBackward {
    template <class P, class T = typename P::element>
    View<T, 2> backward(P& pass, View<T, 2> dy, Saved<T>&) const {
        auto dx = pass.activation(dy.extent(0), dy.extent(1));
        return dx;
    }
};
struct WithoutDeclare : WithBackward {
    void declare(Declaration&) = delete;
};
struct WithoutInspect : WithBackward {
    void inspect() const {}
};

struct WithoutWorkspace {
    template <class T>
    using Buffer = lockstep::tensor::ArenaStorage::Buffer<T>;
};

}  // namespace

#if defined(SEQUENTIAL_OF_NO_MODULE)
template class lockstep::nn::Sequential<Linear, WithoutBackward, Linear>;
#elif defined(RESIDUAL_OF_NO_MODULE)
template struct lockstep::nn::Residual<WithoutDeclare>;
#elif defined(RECOMPUTE_OF_NO_MODULE)
template struct lockstep::nn::Recompute<WithoutInspect>;
#elif defined(OVERWRITES_FIRST)
template class lockstep::nn::Sequential<Dropout, Linear>;
#elif defined(OVERWRITES_KEPT)
template class lockstep::nn::Sequential<Linear, CausalAttention, Dropout>;
#elif defined(SPOILS_LAST)
template class lockstep::nn::Sequential<Linear, Rotary>;
#elif defined(RESIDUAL_OVERWRITES)
template struct lockstep::nn::Residual<Dropout>;
#elif defined(RECOMPUTE_OVERWRITES)
template struct lockstep::nn::Recompute<Rotary>;
#elif defined(BAD_STORAGE)
static_assert(model<Gpt2<WithoutWorkspace>, float>);
#else
static_assert(model<Gpt2<lockstep::tensor::ArenaStorage>, float>);
static_assert(module<Sequential<Linear, Rotary, CausalAttention, Linear, Dropout>>);
static_assert(module<Residual<Sequential<Linear, Dropout>>>);
static_assert(module<Recompute<Residual<Linear>>>);
static_assert(module<Residual<Sequential<WithBackward, Recompute<WithBackward>>>>);
#endif
