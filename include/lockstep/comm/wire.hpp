#pragma once
// The words that users of a communicator need, without MPI.

#include <cstddef>
#include <string_view>
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

/// Who sums over the ranks.
enum class Reduction {
    ordered,  // this library: a binary tree over rank index, the same bits for every cut of a buffer
    vendor,   // MPI's own collectives: its order of sums, which may change with the size of a buffer
};

/// Who carries collectives forward.
enum class Progress {
    automatic,  // as `parallel::choose_progress` decides
    thread,     // a thread of its own, beside compute
    inside,     // the thread that computes, between kernels
};

constexpr std::string_view name(Progress progress) noexcept {
    constexpr std::string_view names[]{"automatic", "thread", "inside"};
    return names[static_cast<std::size_t>(progress)];
}

/// Where the sums of an ordered reduction go.
enum class Result {
    scattered,  // each rank gets the sums of its part
    gathered,   // the sums replace the whole buffer on every rank
};

}  // namespace lockstep::comm
