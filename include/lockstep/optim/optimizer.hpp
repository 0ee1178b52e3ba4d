#pragma once
// The contract of an optimizer: it declares how many values of state an element has, and updates one slice in place.
// The trainer allocates the state at the size that the strategy owns, so an optimizer knows nothing of ranks.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "lockstep/precision/mixed.hpp"  // master_element
#include "lockstep/state/unit.hpp"       // Parameter, Range

namespace lockstep::optim {

/// An owned part of one parameter. Its elements lie as the parameter's layout says; padding is zero and must stay zero,
/// which follows where a zero value with a zero gradient stays zero.
template <precision::master_element T>
struct Slice {
    state::Parameter const& parameter;  // name, dimensions, whether it decays
    Range                   range;      // in the buffers of the parameter's unit
    std::span<T>            values;     // masters of the range
    std::span<T const>      gradients;  // of the range, as summed: `StepInfo::gradient_scale` is not in them yet

    std::size_t size() const noexcept { return values.size(); }
};

namespace detail {
template <class O, class T>
struct StateElement {
    using type = T;
};
template <class O, class T>
    requires requires { typename O::template state_element<T>; }
struct StateElement<O, T> {
    using type = typename O::template state_element<T>;
};
}  // namespace detail

/// What the state of masters of type T is kept in: T itself, unless the optimizer names another `state_element<T>`.
template <class O, class T>
using StateElement = typename detail::StateElement<O, T>::type;

/// The state of a slice: one span per declared slot, zero before the first update.
template <class O, class T>
using Slots = std::array<std::span<StateElement<O, T>>, O::state_slots>;

/// What all elements of a slice share in this update.
struct StepInfo {
    std::uint64_t step           = 1;  // updates applied so far, this one included; a skipped step does not count
    double        learning_rate  = 0;  // schedule and group included
    double        gradient_scale = 1;  // raw gradient times this is the gradient: clipping / loss scale
};

/// Says how many values of optimizer state an element has: `static constexpr std::size_t state_slots`.
template <class O>
concept declares_state_slots = requires {
    { &O::state_slots } -> std::same_as<std::size_t const*>;
    typename std::integral_constant<std::size_t, O::state_slots>;  // known at compile time
};

/// Has `void update(Slice<T>, Slots<O, T>, StepInfo) const noexcept`: the object holds options only, all state is in the slots.
template <class O, class T>
concept updates_in_place = requires(O const& options, Slice<T> slice, Slots<O, T> slots, StepInfo step) {
    { options.update(slice, slots, step) }
    noexcept->std::same_as<void>;
};

template <class O, class T>
concept optimizer = declares_state_slots<O> && updates_in_place<O, T>;

/// Set to true for an optimizer whose element i depends on element i only, bit for bit, wherever a slice begins or ends.
/// An optimizer that needs whole tensors leaves it unset and cannot be sharded.
template <class O>
inline constexpr bool enable_elementwise = false;

/// May be given any part of a parameter: what a sharding strategy needs.
template <class O, class T>
concept elementwise_optimizer = optimizer<O, T> && enable_elementwise<O>;

}  // namespace lockstep::optim
