#pragma once
// A thread that has the next item ready while the present one is used.

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "lockstep/core/thread.hpp"

namespace lockstep::data {

/// Two slots: one is in use, the other is being filled. `fill(slot, index)` runs on the loader's thread, for index first, first + 1, ...;
/// what it throws is thrown again by the `next` that would have returned its item. Allocates at construction only.
template <class Slot, class Fill>
class BackgroundLoader {
public:
    BackgroundLoader(std::array<Slot, 2> slots, Fill fill, std::uint64_t first)
        : slots_(std::move(slots)),
          fill_(std::move(fill)),
          filled_(first),
          taken_(first),
          thread_(start_thread<std::jthread>("to read batches ahead", [this](std::stop_token stop) { run(stop); })) {}
    BackgroundLoader(BackgroundLoader const&)            = delete;
    BackgroundLoader& operator=(BackgroundLoader const&) = delete;

    /// The next item; it stays as it is until the following call.
    Slot const& next() {
        auto const       start = std::chrono::steady_clock::now();
        std::unique_lock lock(mutex_);
        in_use_ = false;
        changed_.notify_all();
        changed_.wait(lock, [&] { return filled_ > taken_ || failure_; });
        wait_ = std::chrono::steady_clock::now() - start;
        if (filled_ == taken_) std::rethrow_exception(failure_);
        in_use_ = true;
        return slots_[taken_++ % 2];
    }

    /// Whether `next` would not wait, after at most so long.
    bool ready(std::chrono::nanoseconds within) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, within, [&] { return filled_ > taken_ || failure_; });
    }

    /// How long the last `next` waited.
    std::chrono::nanoseconds last_wait() const noexcept { return wait_; }

private:
    void run(std::stop_token const& stop) {
        try {
            for (std::uint64_t index = filled_;; ++index) {
                {
                    std::unique_lock lock(mutex_);
                    if (!changed_.wait(lock, stop, [&] { return index - taken_ + (in_use_ ? 1 : 0) < 2; })) return;
                }
                fill_(slots_[index % 2], index);
                std::lock_guard lock(mutex_);
                filled_ = index + 1;
                changed_.notify_all();
            }
        } catch (...) {
            std::lock_guard lock(mutex_);
            failure_ = std::current_exception();
            changed_.notify_all();
        }
    }

    std::array<Slot, 2>         slots_;
    Fill                        fill_;
    std::mutex                  mutex_;
    std::condition_variable_any changed_;
    std::uint64_t               filled_;  // one past the last item that is ready
    std::uint64_t               taken_;   // one past the last item that was given out
    bool                        in_use_ = false;
    std::exception_ptr          failure_;
    std::chrono::nanoseconds    wait_{0};
    std::jthread                thread_;  // last: stopped and joined before anything it uses goes
};

}  // namespace lockstep::data
