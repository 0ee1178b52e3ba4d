#pragma once
// A thread that cannot be had is told by name.

#include <string_view>
#include <system_error>
#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep {

/// Starts a thread. Raises a peer error that says what it was for where the system has none left: other ranks may have theirs.
template <class Thread, class Body>
Thread start_thread(std::string_view purpose, Body&& body) {
    try {
        return Thread(std::forward<Body>(body));
    } catch (std::system_error const& error) {
        peer_error("expected another thread, ", purpose, ", found: ", error.code().message());
    }
}

}  // namespace lockstep
