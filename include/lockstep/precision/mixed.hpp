#pragma once
// The precision policy: which type computes, which keeps the masters, which travels, and whether the loss is scaled.

#include <concepts>

#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/precision/float16.hpp"

namespace lockstep::precision {

/// A type that kernels read and write. Arithmetic on it is done in `accumulator<T>`.
template <class T>
concept compute_element = std::same_as<T, float> || std::same_as<T, bfloat16> || std::same_as<T, float16> || std::same_as<T, double>;

/// A type that masters, gradients and optimizer state are kept in.
template <class T>
concept master_element = std::same_as<T, float> || std::same_as<T, double>;

template <class T>
struct accumulator_of {
    using type = float;
};
template <>
struct accumulator_of<double> {
    using type = double;
};
/// Type of sums, statistics and gradients of parameters for a compute type: double for double, else float.
template <class T>
using accumulator = typename accumulator_of<T>::type;

/// No loss scaling: the exponent range of the compute type suffices.
struct Unscaled {
    static constexpr bool dynamic = false;
};

/// Dynamic loss scaling for types whose small gradients vanish (Micikevicius et al. 2018, arXiv:1710.03740).
struct DynamicScaling {
    static constexpr bool dynamic = true;
};

template <class Compute, class Master = float, class Reduce = float, class Scaling = Unscaled>
struct Mixed {
    using compute = Compute;  // weights as kernels read them, activations and their gradients
    using master  = Master;   // masters, gradients of parameters, optimizer state
    using reduce  = Reduce;   // gradients on the wire; sums over ranks are in `master`
    using scaling = Scaling;
};

using Fp32 = Mixed<float>;
using Bf16 = Mixed<bfloat16>;
using Fp16 = Mixed<float16, float, float, DynamicScaling>;

template <class P>
concept names_compute_element = compute_element<typename P::compute>;
template <class P>
concept names_master_element = master_element<typename P::master>;
template <class P>
concept names_wire_element = compute_element<typename P::reduce>;
template <class P>
concept names_scaling = requires {
    { P::scaling::dynamic } -> std::convertible_to<bool>;
};

/// What a precision policy must provide; `Mixed` does.
template <class P>
concept precision = names_compute_element<P> && names_master_element<P> && names_wire_element<P> && names_scaling<P>;

static_assert(precision<Fp32> && precision<Bf16> && precision<Fp16>);

}  // namespace lockstep::precision
