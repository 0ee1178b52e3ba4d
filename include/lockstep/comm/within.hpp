#pragma once
// MPI functions that block and have no timeout of their own.

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "lockstep/comm/backoff.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/escape.hpp"

namespace lockstep::comm {

/// "rank 1: ", before MPI tells it; "" where the launcher does not either.
inline std::string rank_by_launcher() {
    char const* const rank = std::getenv("PMI_RANK");
    return rank != nullptr ? sentence("rank ", escaped(rank), ": ") : "";
}

/// What `call` returns, which must not raise. Where it takes longer than `seconds`, this process prints the sentence and ends with `code`:
/// nothing else can be done in a process that is inside MPI.
template <class Call>
int within(double seconds, std::string_view sentence, int code, Call const& call) {
    std::mutex              mutex;
    std::condition_variable changed;
    bool                    over = false;
    auto const              wait = [&] {
        std::unique_lock lock(mutex);
        for (Deadline deadline(seconds); !deadline.passed();)
            if (changed.wait_for(lock, std::chrono::milliseconds(100), [&] { return over; })) return;
        std::fprintf(stderr, "%.*s\n", static_cast<int>(sentence.size()), sentence.data());
        std::fflush(nullptr);
        std::_Exit(code);
    };
    std::thread guard;
    try {
        guard = std::thread(wait);
    } catch (std::system_error const&) {  // then nobody guards it
    }
    int const result = call();
    {
        std::lock_guard const lock(mutex);
        over = true;
    }
    changed.notify_one();
    if (guard.joinable()) guard.join();
    return result;
}

/// Where all ranks must come for the call to end. `who`: "rank 1: ". The code is that of a peer error.
template <class Call>
int with_all_ranks(double seconds, std::string_view name, std::string_view who, Call const& call) {
    return within(seconds, sentence(who, "waited ", seconds, " s for ", name, ", ", OtherRanks::somebody_is_missing),
                  static_cast<int>(Fault::peer), call);
}

}  // namespace lockstep::comm
