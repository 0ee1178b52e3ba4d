#pragma once
// The words that users of a communicator need, without MPI.

#include <type_traits>

#include "lockstep/precision/bfloat16.hpp"

namespace lockstep::comm {

/// What a contribution to a sum looks like while it travels. Sums themselves are never rounded to it.
enum class Wire {
    fp32,  // as it is: float stays float, double stays double
    bf16,  // every contribution, the own one too, is rounded once
};

/// The wire that a precision policy's `reduce` type asks for.
template <class Reduce>
inline constexpr Wire wire_of = std::is_same_v<Reduce, precision::bfloat16> ? Wire::bf16 : Wire::fp32;

/// How the vendor's reductions combine the ranks' elements.
enum class Combine { sum, max, min };

/// Where the sums of an ordered reduction go.
enum class Result {
    scattered,  // each rank gets the sums of its part
    gathered,   // the sums replace the whole buffer on every rank
};

}  // namespace lockstep::comm
