#pragma once
// Where the first number of a step came from that is not finite.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "lockstep/core/error.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/state/unit.hpp"

namespace lockstep {

/// As far as it is known. Gradients are looked at one by one before they are summed only in the step behind one that was skipped, or where
/// somebody asks for it: a run in which all is well pays nothing, and one that skips again learns the rank.
struct NonFinite {
    enum class In : std::uint8_t {
        loss,      // of one rank
        gradient,  // as one rank contributed it
        sum,       // of a gradient over micro-steps and ranks
        nothing,   // every element is finite, the norm of all of them is not
    };

    In          in        = In::nothing;
    std::size_t rank      = 0;  // where one rank is known
    std::size_t unit      = 0;
    std::size_t parameter = 0;  // in the unit's table

    /// Less is known more exactly, and of equals less is earlier: what all ranks take the least of.
    static constexpr std::uint64_t key(In in, std::size_t order = 0, std::size_t unit = 0, std::size_t parameter = 0) noexcept {
        return static_cast<std::uint64_t>(in) << 62 | std::uint64_t{std::min(order, most_orders)} << 40 | std::uint64_t{unit} << 20 |
               parameter;
    }
    static NonFinite least(std::span<std::int64_t const> keys_of_ranks) {
        auto const unsigned_less = [](std::int64_t a, std::int64_t b) {
            return static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b);
        };
        auto const          place = std::min_element(keys_of_ranks.begin(), keys_of_ranks.end(), unsigned_less);
        auto const          least = static_cast<std::uint64_t>(*place);
        std::uint64_t const low   = (std::uint64_t{1} << 20) - 1;
        return {.in        = static_cast<In>(least >> 62),
                .rank      = static_cast<std::size_t>(place - keys_of_ranks.begin()),
                .unit      = static_cast<std::size_t>(least >> 20 & low),
                .parameter = static_cast<std::size_t>(least & low)};
    }

private:
    static constexpr std::size_t most_orders = (std::size_t{1} << 22) - 1;
};

/// "the gradient of h.0.mlp.c_fc.weight on rank 1".
inline std::string describe(NonFinite const& found, std::span<state::Unit const> units) {
    if (found.in == NonFinite::In::loss) return sentence("the loss of rank ", found.rank);
    if (found.in == NonFinite::In::nothing) return "the norm of the gradients, each of which is finite";
    std::string const& name = units[found.unit].parameters[found.parameter].name;
    return found.in == NonFinite::In::gradient ? sentence("the gradient of ", name, " on rank ", found.rank)
                                               : sentence("the sum of the gradients of ", name);
}

template <class T>
bool all_finite(std::span<T const> values) {
    using Bits                     = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    constexpr Bits        infinity = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
    constexpr std::size_t block    = 16384;
    std::atomic<bool>     finite{true};
    runtime::parallel_for((values.size() + block - 1) / block, block, [&](std::size_t b) {
        Bits largest = 0;  // without sign: of what is finite all are below that of infinity
        for (T const value : values.subspan(b * block, std::min(block, values.size() - b * block)))
            largest = std::max(largest, std::bit_cast<Bits>(value) << 1 >> 1);
        if (largest >= infinity) finite = false;
    });
    return finite;
}

}  // namespace lockstep
