// Optimizers that Bf16State cannot wrap.

#include "lockstep/optim/bf16_state.hpp"

using namespace lockstep::optim;

template <std::size_t slots>
struct Rule {
    static constexpr std::size_t state_slots = slots;

    template <class T>
    void update(Slice<T>, Slots<Rule, T>, StepInfo) const noexcept {}
};
template <>
inline constexpr bool lockstep::optim::enable_elementwise<Rule<2>> = true;
template <>
inline constexpr bool lockstep::optim::enable_elementwise<Rule<3>> = true;

#if defined(NOT_ELEMENTWISE)
Bf16State<Rule<1>> state;
#elif defined(THREE_SLOTS)
Bf16State<Rule<3>> state;
#else
Bf16State<Rule<2>> state;
#endif
