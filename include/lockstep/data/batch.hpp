#pragma once
// What a training step consumes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"

namespace lockstep::data {

/// The sequences of one rank in one step: S sequences of T tokens. Micro-step m of B sequences takes the rows m*B .. m*B+B-1.
/// The memory belongs to who made the batch and stays as it is until that one is asked for the next.
struct Batch {
    std::size_t   sequences    = 0;  // S
    std::size_t   length       = 0;  // T
    std::uint64_t first_sample = 0;  // global index of the first sequence

    std::span<std::int32_t const> tokens;  // (S,T)
    std::span<std::int32_t const> labels;  // (S,T), `ignored_label` where not valid
};

/// Labels that take part in the loss.
inline std::size_t valid_tokens(std::span<std::int32_t const> labels) noexcept {
    auto const ignored = std::count(labels.begin(), labels.end(), std::int32_t{ignored_label});
    return labels.size() - static_cast<std::size_t>(ignored);
}

}  // namespace lockstep::data
