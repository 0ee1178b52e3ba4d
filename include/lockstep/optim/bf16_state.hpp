#pragma once
// Bf16State: the state of another optimizer in bfloat16, rounded stochastically so that small changes are not lost on average
// (Gupta et al. 2015, arXiv:1502.02551).

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "lockstep/kernel/random_words.hpp"
#include "lockstep/optim/adamw.hpp"

namespace lockstep::optim {

/// Half the memory and traffic of the state. A random number is a function of seed, step and the element's place in its unit, so the
/// result depends on no rank, shard or thread. Each element has one word of 32 bits, 16 of them for each of at most two slots.
template <class Optimizer>
struct Bf16State {
    static_assert(enable_elementwise<Optimizer>,
                  "lockstep: Bf16State must wrap an elementwise optimizer; see lockstep/optim/optimizer.hpp");
    static_assert(Optimizer::state_slots <= 2, "lockstep: Bf16State must wrap an optimizer of at most two slots");

    static constexpr std::size_t state_slots = Optimizer::state_slots;
    template <class T>
    using state_element = precision::bfloat16;

    Optimizer     optimizer = {};
    std::uint64_t seed      = 1337;  // of the rounding

    /// Updates one owned slice in place; element i depends on element i only.
    template <precision::master_element T>
    void update(Slice<T> slice, Slots<Bf16State, T> slots, StepInfo step) const noexcept {
        RandomKey const       key{seed, purpose::optimizer_state | slice.parameter.purpose, static_cast<std::uint32_t>(step.step)};
        kernel::RandomWords   words;
        constexpr std::size_t block = words.size();
        for (std::size_t at = 0; at < slice.size();) {
            std::size_t const place = slice.range.begin + at, n = std::min(slice.size() - at, block - place % block);
            kernel::random_words(key, place / block * (block / 4), words);
            update_block(slice, slots, step, at, n, words.data() + place % block);
            at += n;
        }
    }

private:
    template <class T>
    void update_block(Slice<T> slice, Slots<Bf16State, T> const& slots, StepInfo step, std::size_t at, std::size_t n,
                      std::uint32_t const* words) const noexcept {
        std::array<std::array<T, std::tuple_size_v<kernel::RandomWords>>, state_slots> wide;

        Slots<Optimizer, T> state;
        for (std::size_t s = 0; s < state_slots; ++s) {
            for (std::size_t i = 0; i < n; ++i) wide[s][i] = static_cast<T>(slots[s][at + i]);
            state[s] = std::span(wide[s]).first(n);
        }
        Range const range{slice.range.begin + at, slice.range.begin + at + n};
        optimizer.update(Slice<T>{slice.parameter, range, slice.values.subspan(at, n), slice.gradients.subspan(at, n)}, state, step);
        for (std::size_t s = 0; s < state_slots; ++s)
            for (std::size_t i = 0; i < n; ++i)
                slots[s][at + i] = precision::bfloat16::round_stochastic(static_cast<float>(wide[s][i]), words[i] >> (16 * s));
    }
};
template <class Optimizer>
inline constexpr bool enable_elementwise<Bf16State<Optimizer>> = true;
static_assert(optimizer<Bf16State<AdamW>, float>);

}  // namespace lockstep::optim
