#pragma once
// The progress engine: carries all collectives of a rank forward while it computes.

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>

#include "lockstep/comm/backoff.hpp"
#include "lockstep/comm/task.hpp"
#include "lockstep/comm/whereabouts.hpp"
#include "lockstep/comm/wire.hpp"  // Progress
#include "lockstep/core/thread.hpp"
#include "lockstep/observe/timeline.hpp"

namespace lockstep::comm {

/// Tasks are issued by one thread, in the same order on all ranks. Each pass steps all of them, the most urgent first. A task may
/// have `depth` chunks on their way to a rank, less what more urgent ones have on theirs, so that an urgent one waits for few bytes;
/// the one issued first always has one, so that no rank waits for another one in a circle. Bits do not depend on any of this.
///
/// Progress::thread: a thread of its own makes the passes. It tests without a pause while somebody waits, yielding the core, and sleeps
/// in between while the rank computes. Progress::inside: the issuing thread makes them in `advance` and `wait`.
/// The first failure, and a wait that lasts longer than the timeout, end all work; `wait` raises the error from then on.
class ProgressEngine {
public:
    struct Settings {
        Progress    policy  = Progress::thread;  // not automatic
        std::size_t rank    = 0;                 // for sentences
        double      timeout = default_timeout;   // of a wait, seconds
        std::size_t depth   = 4;                 // chunks on their way to a rank
    };

    explicit ProgressEngine(Settings const& settings) : settings_(settings) {
        if (policy() == Progress::thread)  // first: where it cannot be had nothing may be left behind
            thread_ = start_thread<std::thread>("to carry messages", [this, timeline = &observe::timeline()] { run(*timeline); });
        Turn const turn;
        log_.enter();
    }
    ProgressEngine(ProgressEngine const&)            = delete;
    ProgressEngine& operator=(ProgressEngine const&) = delete;
    ~ProgressEngine() {
        settle();
        stop();
        Turn const turn;
        log_.leave();
    }

    Progress policy() const noexcept { return settings_.policy; }

    /// Hands a task over. All that it reads and writes belongs to the engine until it is idle.
    void issue(Task& task) {
        task.issued_as_ = ++issued_;
        task.started_   = false;
        task.next_      = nullptr;
        task.busy_.store(true, std::memory_order_relaxed);
        Subject const& subject = task.subject_;
        log_.issuer(observe::track());
        log_.issued(issued_, subject);
        observe::mark(observe::issue_of(subject.transfer()), subject.index, subject.part, subject.bytes);
        std::unique_lock lock(mutex_);
        ++unfinished_;
        *submitted_end_ = &task;
        submitted_end_  = &task.next_;
        if (policy() == Progress::thread && asleep_) awake_.notify_one();
    }

    /// Inside: does what can be done without waiting. Thread: nothing.
    void advance() {
        if (policy() != Progress::inside || failure_) return;
        accept();
        if (active_ == nullptr) return pass_here();
        Subject const&      subject = active_->subject_;  // of the most urgent one
        observe::Span const span(subject.progress(), subject.index, subject.part);
        pass_here();
    }

    /// Returns when the task is idle.
    void wait(Task& task) {
        if (policy() == Progress::inside && !task.idle() && !failure_) pass_here();
        if (task.idle()) return;
        observe::Span const span(task.subject_.wait(), task.subject_.index, task.subject_.part, task.subject_.bytes);
        wait_for([&] { return task.idle(); }, &task);
    }

    /// Returns when all tasks are idle.
    void wait_all() {
        wait_for([&] { return unfinished_ == 0; }, nullptr);
    }

    /// For destructors of what tasks work on: afterwards the engine touches none of it. While an exception unwinds this rank, the others
    /// may never do their part: after a second, tasks are abandoned. A failure that nobody can catch any more ends the process.
    void settle() noexcept {
        try {
            bool const unwinding = std::uncaught_exceptions() > 0;
            if (unwinding && !has_abandoned) {
                settings_.timeout = 1;
                abandoning_       = true;
            }
            if (!(unwinding && has_abandoned)) wait_all();
        } catch (std::exception const& error) {
            bool const told = raised_ || std::uncaught_exceptions() > 0 || other_ranks.reported;
            if (!told) {
                std::fprintf(stderr, "%s\n", error.what());
                std::fflush(nullptr);
                std::_Exit(static_cast<int>(Fault::peer));  // the launcher ends the other ranks
            }
            has_abandoned = true;
        }
        if (unfinished() == 0) return;
        stop();
        accept();
        for (Task* task = active_; task != nullptr; task = task->next_) {
            task->abandon_(*task);
            task->busy_.store(false, std::memory_order_release);
        }
        active_     = nullptr;
        unfinished_ = 0;
    }

private:
    using Microseconds = std::chrono::microseconds;

    // All that follows under "shared" is read and written under the mutex.

    std::size_t unfinished() {
        std::lock_guard const lock(mutex_);
        return unfinished_;
    }

    void stop() noexcept {
        if (!thread_.joinable()) return;
        {
            std::lock_guard const lock(mutex_);
            stopping_ = true;
        }
        awake_.notify_one();
        thread_.join();
    }

    template <class Over>
    void wait_for(Over const& over, Task* task) {
        Deadline deadline(settings_.timeout, !abandoning_);
        if (policy() == Progress::inside) {
            for (Backoff backoff; !over(); backoff.pause()) {
                if (!failure_) pass_here();
                if (!failure_ && deadline.passed()) failure_ = late(deadline, task);
                if (failure_ && !over()) raise();
            }
            return;
        }
        std::unique_lock lock(mutex_);
        waited_for_  = task;
        waiting_     = true;
        wait_begins_ = &deadline;
        if (asleep_) awake_.notify_one();
        finished_.wait(lock, [&] { return over() || failure_ != nullptr; });
        waiting_ = false;
        if (!over()) raise();
    }

    [[noreturn]] void raise() {
        raised_ = true;
        std::rethrow_exception(failure_);
    }

    /// The peer error of a wait that is too long; none where there is nothing to wait for. It names the task that was waited for, or the
    /// one issued first.
    std::exception_ptr late(Deadline const& deadline, Task const* task) noexcept {
        try {
            if (task == nullptr) task = first_issued();
            if (task != nullptr) deadline.raise(settings_.rank, task->subject_, {.operation = task->issued_as_});
        } catch (...) {
            return std::current_exception();
        }
        return {};
    }

    // The issuing thread without a thread of the engine.

    void pass_here() {
        accept();
        try {
            pass();
            attend();
        } catch (...) {
            failure_ = std::current_exception();
            raise();
        }
    }

    // The engine.

    void run(observe::Timeline& timeline) {
        observe::UseTimeline const use(timeline);
        observe::name_thread("communication");
        ::prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);  // nanoseconds: a sleep is as long as it says
        unsigned         still = 0;                         // passes in which nothing moved
        Microseconds     sleep = least_sleep;               // the next one while the rank computes
        std::unique_lock lock(mutex_);
        for (;;) {
            accept();
            if (stopping_) return;
            if (active_ == nullptr || failure_) {
                auto const called = [&] { return stopping_ || (submitted_ != nullptr && !failure_); };
                asleep_           = true;
                if (!other_ranks.known()) awake_.wait(lock, called);
                bool const idle = !awake_.wait_for(lock, OtherRanks::period, called);
                asleep_         = false;
                if (idle) {
                    lock.unlock();
                    attend();
                    lock.lock();
                }
                continue;
            }
            if (waiting_ && wait_begins_->passed()) {
                Deadline const    deadline = *wait_begins_;  // of a thread that waits on, until `failure_` is set
                Task const* const task     = waited_for_;
                lock.unlock();
                std::exception_ptr const failure = late(deadline, task);
                lock.lock();
                failure_ = failure;
                finished_.notify_all();
                continue;
            }
            bool const             waiting = waiting_;
            OtherRanks::Time const since   = waiting ? wait_begins_->begin() : OtherRanks::Time();
            lock.unlock();
            bool               moved = false;
            std::exception_ptr failure;
            try {
                moved = pass();
                if (waiting && still > yields && still % passes_per_check == 0)
                    other_ranks.check(since);
                else
                    attend();
            } catch (...) {
                failure = std::current_exception();
            }
            still = moved ? 0 : still + 1;
            if (moved) sleep = least_sleep;
            if (waiting && !failure && still < yields) std::this_thread::yield();
            lock.lock();
            if (failure) {
                failure_ = failure;
                finished_.notify_all();
            } else if (still >= (waiting_ ? yields : passes_at_once) && active_ != nullptr && submitted_ == nullptr && !stopping_) {
                asleep_ = true;
                awake_.wait_for(lock, waiting_ ? short_sleep : sleep);
                asleep_ = false;
                if (waiting_) continue;
                still = 0;
                sleep = std::min(2 * sleep, most_sleep);  // each look costs compute, and the network is not that fast
            }
        }
    }

    /// Now and then.
    void attend() {
        if (!other_ranks.known()) return;
        auto const now = std::chrono::steady_clock::now();
        if (now - attended_ < OtherRanks::period) return;
        attended_ = now;
        other_ranks.attend();
    }

    /// Steps all tasks once; true if one of them moved.
    bool pass() {
        bool              moved = false;
        std::size_t       used  = 0;
        Task const* const first = first_issued();
        for (Task** link = &active_; *link != nullptr;) {
            Task&      task = **link;
            Window     window{.depth = std::max<std::size_t>(settings_.depth - used, &task == first ? 1 : 0)};
            auto const before = task.started_ ? observe::Nanoseconds{} : observe::now();
            bool const over   = task.step_(task, window);
            if (!task.started_ && (over || window.moved || window.in_flight != 0)) {
                task.started_ = true;
                task.began_   = before;
            }
            used  = std::min(settings_.depth, used + window.in_flight);
            moved = moved || over || window.moved;
            if (over) {
                *link = task.next_;
                finish(task);
            } else {
                link = &task.next_;
            }
        }
        return moved;
    }

    void finish(Task& task) {
        task.finished_as_      = ++count_finished_;
        Subject const& subject = task.subject_;
        observe::record({.event = subject.transfer(),
                         .part  = static_cast<std::uint16_t>(subject.part),
                         .index = static_cast<std::uint32_t>(subject.index),
                         .begin = task.began_,
                         .end   = observe::now(),
                         .bytes = subject.bytes});
        std::lock_guard const lock(mutex_);
        --unfinished_;
        task.busy_.store(false, std::memory_order_release);  // it may be issued again from here on
        if (waiting_) finished_.notify_all();
    }

    Task* first_issued() const noexcept {
        Task* first = nullptr;
        for (Task* task = active_; task != nullptr; task = task->next_)
            if (first == nullptr || task->issued_as_ < first->issued_as_) first = task;
        return first;
    }

    /// Takes in what was submitted, by urgency, then by order of issue.
    void accept() noexcept {
        while (Task* const task = submitted_) {
            submitted_  = task->next_;
            Task** link = &active_;
            while (*link != nullptr && (*link)->urgency_ <= task->urgency_) link = &(*link)->next_;
            task->next_ = *link;
            *link       = task;
        }
        submitted_end_ = &submitted_;
    }

    // Passes in which nothing moved: before a sleep while somebody waits; before one while the rank computes (one is too few, because MPI
    // moves a limited number of bytes in each and says nothing of them); between two looks at whether waiting makes sense.
    static constexpr unsigned     yields = 2000, passes_at_once = 4, passes_per_check = 64;
    static constexpr Microseconds short_sleep{50}, least_sleep{250}, most_sleep{1000};

    Settings      settings_;
    std::uint64_t issued_     = 0;      // the issuing thread's
    bool          raised_     = false;  // the failure has reached the program
    bool          abandoning_ = false;  // an exception unwinds this rank: what it waits for no longer matters to anybody

    // The engine's own.
    Task*            active_         = nullptr;
    std::uint64_t    count_finished_ = 0;
    OtherRanks::Time attended_{};

    IssueLog log_;

    // Shared.
    std::mutex              mutex_;
    std::condition_variable awake_, finished_;
    Task*                   submitted_     = nullptr;
    Task**                  submitted_end_ = &submitted_;
    std::size_t             unfinished_    = 0;
    Task*                   waited_for_    = nullptr;
    Deadline*               wait_begins_   = nullptr;
    bool                    waiting_ = false, asleep_ = false, stopping_ = false;
    std::exception_ptr      failure_;

    std::thread thread_;
};

}  // namespace lockstep::comm
