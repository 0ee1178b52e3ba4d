#pragma once
// Adam and AdamW as one policy, chosen at run time: they have the same state, and a program that offers both compiles one trainer less.

#include "lockstep/optim/adam.hpp"
#include "lockstep/optim/adamw.hpp"

namespace train_gpt {

struct AdamFamily {
    static constexpr std::size_t state_slots = 2;

    bool                   decoupled = true;  // AdamW
    lockstep::optim::Adam  adam;
    lockstep::optim::AdamW adamw;

    template <lockstep::precision::master_element T>
    void update(lockstep::optim::Slice<T> slice, lockstep::optim::Slots<AdamFamily, T> slots,
                lockstep::optim::StepInfo step) const noexcept {
        if (decoupled)
            adamw.update(slice, slots, step);
        else
            adam.update(slice, slots, step);
    }
};

}  // namespace train_gpt

template <>
inline constexpr bool lockstep::optim::enable_elementwise<train_gpt::AdamFamily> = true;
static_assert(lockstep::optim::optimizer<train_gpt::AdamFamily, float>);
