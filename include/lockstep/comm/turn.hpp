#pragma once
// MPI_THREAD_SERIALIZED: one thread at a time is inside MPI.

#include <mutex>

namespace lockstep::comm {

/// Held by a thread of this process while it calls MPI, maybe more than once: a progress engine's thread may do so at the same time as
/// others.
class [[nodiscard]] Turn {
public:
    Turn() : lock_(mutex()) {}

private:
    static std::recursive_mutex& mutex() noexcept {
        static std::recursive_mutex instance;
        return instance;
    }
    std::lock_guard<std::recursive_mutex> lock_;
};

}  // namespace lockstep::comm
