#pragma once
// What time it is: a clock is a value, so that a virtual cluster runs the same code on a virtual clock.

#include <chrono>
#include <cstdint>

namespace lockstep::observe {

/// Of a clock, since its own beginning.
using Nanoseconds = std::int64_t;

/// Readings never go backwards within a thread. `read` must be cheap: an event takes two of them.
struct Clock {
    Nanoseconds (*read)(void const* source) noexcept = nullptr;
    void const* source                               = nullptr;

    Nanoseconds now() const noexcept { return read(source); }
};

/// Of this machine: all its processes read the same one.
inline Clock steady_clock() noexcept {
    return {[](void const*) noexcept -> Nanoseconds {
                return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
            },
            nullptr};
}

/// How a rank's clock relates to the one that all ranks share, which is rank 0's. Ranks of one machine read the same clock.
struct ClockRelation {
    Nanoseconds at     = 0;  // reading of this rank's clock to which the offset belongs
    Nanoseconds offset = 0;  // to be added
    double      drift  = 0;  // nanoseconds that the offset grows by in each of this rank's
    Nanoseconds error  = 0;  // bound of the offset's error at that reading

    Nanoseconds common(Nanoseconds own) const noexcept { return own + correction(own); }
    Nanoseconds own(Nanoseconds common) const noexcept { return common - correction(common - offset); }

private:
    Nanoseconds correction(Nanoseconds own) const noexcept {
        return offset + static_cast<Nanoseconds>(drift * static_cast<double>(own - at));
    }
};

}  // namespace lockstep::observe
