#pragma once
// Assertions graded by what they may cost. A level includes the ones below it.
// Set LOCKSTEP_ASSERTIONS to a number before the first include, the same in the whole program.

#include "lockstep/core/error.hpp"

namespace lockstep {

enum class Assertions {
    none          = 0,
    light         = 1,  // O(1) a call: shapes, ranges, order of calls
    normal        = 2,  // O(1) an element touched
    heavy         = 3,  // a pass over data of its own
    communication = 4,  // a collective of its own: all ranks hold the same version
};

#if defined(LOCKSTEP_ASSERTIONS)
inline constexpr Assertions assertions = static_cast<Assertions>(LOCKSTEP_ASSERTIONS);
#elif defined(NDEBUG)
inline constexpr Assertions assertions = Assertions::light;
#else
inline constexpr Assertions assertions = Assertions::normal;
#endif

constexpr bool asserts(Assertions level) noexcept { return assertions >= level; }

/// Raises an input error with the joined sentence when the condition does not hold and the level is on.
template <Assertions level = Assertions::light, class... Parts>
constexpr void require(bool condition, Parts const&... parts) {
    if constexpr (asserts(level)) {
        if (!condition) [[unlikely]]
            input_error(parts...);
    }
}

}  // namespace lockstep
