#pragma once
// The events of one thread: a ring of fixed size that its thread writes and any thread may read meanwhile.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "lockstep/observe/event.hpp"
#include "lockstep/observe/ledger.hpp"
#include "lockstep/observe/step_clock.hpp"

namespace lockstep::observe {

/// What a thread is in the middle of.
struct Doing {
    Event         event       = Event::step;  // the innermost span
    std::uint32_t index       = 0;
    bool          open        = false;  // whether there is one
    Nanoseconds   since       = 0;
    Event         phase       = Event::step;  // the last span of compute, update or data that began
    std::uint32_t phase_index = 0;
    std::uint64_t version     = 0;  // that began last
};

/// Keeps the latest `capacity` records. Writing takes no lock and no memory.
class Track {
public:
    static constexpr std::size_t capacity = 8192;  // a power of two

    explicit Track(std::size_t number) : number_(number), ring_(std::make_unique<Slot[]>(capacity)) {
        ledger().add(Category::scratch, capacity * sizeof(Slot));
    }
    Track(Track const&)            = delete;
    Track& operator=(Track const&) = delete;
    ~Track() { ledger().remove(Category::scratch, capacity * sizeof(Slot)); }

    std::size_t number() const noexcept { return number_; }

    /// For people. The text must live as long as the process.
    void rename(char const* thread) noexcept { name_.store(thread, std::memory_order_relaxed); }

    /// For another thread, which has done nothing yet.
    void reuse() noexcept {
        rename("thread");
        reopen({});
        phase_.store(packed(Event::step, 0), std::memory_order_relaxed);
        begin_version(0);
    }
    std::string_view thread() const noexcept { return name_.load(std::memory_order_relaxed); }

    // Of the thread that writes.

    void record(Record const& r) noexcept {
        std::uint64_t const at   = written_.load(std::memory_order_relaxed);
        Slot&               slot = ring_[at % capacity];
        std::uint64_t const what = static_cast<std::uint64_t>(r.event) | std::uint64_t{r.part} << 16 | std::uint64_t{r.index} << 32;
        // Release keeps these behind the previous change of `written_`, which tells readers that the slot is being used again.
        slot[0].store(what, std::memory_order_release);
        slot[1].store(static_cast<std::uint64_t>(r.begin), std::memory_order_release);
        slot[2].store(static_cast<std::uint64_t>(r.end), std::memory_order_release);
        slot[3].store(r.bytes, std::memory_order_release);
        written_.store(at + 1, std::memory_order_release);
        issued_ += is_issue(r.event);
        if (r.event == Event::version) begin_version(r.index);
    }

    /// Collectives issued by this thread so far: the same number on all ranks, even where records were lost.
    std::uint64_t issued() const noexcept { return issued_; }

    StepClock* clock = nullptr;  // that spans of this thread are booked in

    /// What is open: a span sets it when it begins, and sets back what was there when it ends.
    struct Open {
        std::uint64_t what  = closed;
        Nanoseconds   since = 0;
    };
    Open open(Event event, std::uint32_t index, Nanoseconds since) noexcept {
        Open const before{open_.load(std::memory_order_relaxed), since_.load(std::memory_order_relaxed)};
        reopen({packed(event, index), since});
        Activity const activity = activity_of(event);
        if (activity == Activity::compute || activity == Activity::update || activity == Activity::data)
            phase_.store(packed(event, index), std::memory_order_relaxed);
        return before;
    }
    void begin_version(std::uint64_t version) noexcept { version_.store(version, std::memory_order_relaxed); }
    void reopen(Open open) noexcept {
        open_.store(open.what, std::memory_order_relaxed);
        since_.store(open.since, std::memory_order_relaxed);
    }

    // Of any thread.

    /// Its parts may belong to two moments, one right behind the other.
    Doing doing() const noexcept {
        std::uint64_t const what = open_.load(std::memory_order_relaxed), phase = phase_.load(std::memory_order_relaxed);
        Doing               doing{.since = since_.load(std::memory_order_relaxed), .version = version_.load(std::memory_order_relaxed)};
        doing.open        = what != closed;
        doing.event       = doing.open ? static_cast<Event>(what & 0xFF) : Event::step;
        doing.index       = doing.open ? static_cast<std::uint32_t>(what >> 32) : 0;
        doing.phase       = static_cast<Event>(phase & 0xFF);
        doing.phase_index = static_cast<std::uint32_t>(phase >> 32);
        return doing;
    }

    std::uint64_t written() const noexcept { return written_.load(std::memory_order_acquire); }

    /// Calls body(record) for the records from number `cursor` on, oldest first, and moves the cursor behind them. Returns how many
    /// were overwritten before they could be read.
    template <class Body>
    std::uint64_t read(std::uint64_t& cursor, Body const& body) const {
        std::uint64_t const end  = written();
        std::uint64_t       lost = 0;
        for (; cursor < end; ++cursor) {
            Slot const&   slot = ring_[cursor % capacity];
            std::uint64_t words[4];
            for (std::size_t w = 0; w < 4; ++w) words[w] = slot[w].load(std::memory_order_acquire);
            if (written_.load(std::memory_order_relaxed) >= cursor + capacity) {  // it may be written again at this moment
                ++lost;
                continue;
            }
            body(Record{.event = static_cast<Event>(words[0] & 0xFF),
                        .part  = static_cast<std::uint16_t>(words[0] >> 16),
                        .index = static_cast<std::uint32_t>(words[0] >> 32),
                        .begin = static_cast<Nanoseconds>(words[1]),
                        .end   = static_cast<Nanoseconds>(words[2]),
                        .bytes = words[3]});
        }
        return lost;
    }

private:
    using Slot = std::array<std::atomic<std::uint64_t>, 4>;

    static constexpr std::uint64_t closed = 0xFF;  // no event
    static constexpr std::uint64_t packed(Event event, std::uint32_t index) noexcept {
        return static_cast<std::uint64_t>(event) | std::uint64_t{index} << 32;
    }

    std::size_t                number_;
    std::unique_ptr<Slot[]>    ring_;
    std::atomic<std::uint64_t> written_{0};
    std::uint64_t              issued_ = 0;
    std::atomic<std::uint64_t> open_{closed}, phase_{packed(Event::step, 0)}, version_{0};
    std::atomic<Nanoseconds>   since_{0};
    std::atomic<char const*>   name_{"thread"};
};

}  // namespace lockstep::observe
