#pragma once
// MPI from the first call to the last, and how a program of many ranks ends.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/watchdog.hpp"
#include "lockstep/comm/within.hpp"
#include "lockstep/core/escape.hpp"

namespace lockstep::comm {

/// Initialises MPI unless that was done before, and then finalises it. One thread at a time may call MPI.
///
/// A program ends in one of two ways. Where all ranks come to the end, well or by an error that all raise alike, it ends in an
/// orderly manner. Where one rank fails while the others wait for it, the whole job is brought down: a rank that leaves by an
/// exception gives the others `patience` to come to the end too, then calls MPI_Abort. A rank that has come to its end well may wait
/// long for the others, but where one of them waits for a rank that has ended, its wait becomes an error: after `patience` where it is
/// the last one, after `absence` where others may still do their part.
class Environment {
public:
    Environment() { begin(nullptr, nullptr, default_timeout); }
    /// `timeout`: seconds that MPI may take to bring the ranks together. Where one of them never comes, MPI would wait for ever.
    Environment(int& argc, char**& argv, double timeout = default_timeout) { begin(&argc, &argv, timeout); }
    Environment(Environment const&)            = delete;
    Environment& operator=(Environment const&) = delete;
    ~Environment() { end(); }

    Communicator const& world() const noexcept { return world_; }

    /// How long a failed rank waits for the others before it ends the job.
    std::chrono::milliseconds patience{2000};

    /// How long a rank waits for others of which some have ended.
    std::chrono::milliseconds absence{300'000};

    /// How long a rank that has come to its end well waits for one that says nothing any more; 0: for ever.
    std::chrono::milliseconds silence{0};

    /// How long a rank that has waited too long may take to leave what it is in, a file that is being written for example, before it ends
    /// without that; 0: for ever.
    std::chrono::milliseconds farewell{0};

    /// Called once when this rank has waited too long, by whichever thread has; must not raise.
    std::function<void()> last_words;

    /// Runs the program and returns its exit code, on all ranks that of the first one that failed. An error's sentence is printed
    /// once; with the rank where not all ranks raised it. `body()` returns an exit code.
    template <class Body>
    int run(Body&& body) {
        runs_ = true;
        try {
            code_ = conclude({}, std::forward<Body>(body)());
        } catch (Error const& error) {
            code_ = conclude(error.what(), static_cast<int>(error.fault()));
        } catch (std::bad_alloc const& error) {
            code_ = conclude(error.what(), static_cast<int>(Fault::peer), true);
        } catch (std::exception const& error) {
            code_ = conclude(error.what(), static_cast<int>(Fault::peer));
        }
        return *code_;
    }

private:
    void begin(int* argc, char*** argv, double timeout) {
        int initialized = 0, level = MPI_THREAD_SINGLE;
        MPI_Initialized(&initialized);
        ::setenv("HWLOC_HIDE_ERRORS", "2", 0);  // where there is no /sys, MPICH's hwloc says so on standard error, once a rank
        if (initialized)
            MPI_Query_thread(&level);
        else
            check(with_all_ranks(std::max(timeout, least), "MPI_Init_thread", rank_by_launcher(),
                                 [&] { return MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &level); }),
                  "MPI_Init_thread", 0);
        owns_ = !initialized;
        if (owns_) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // MPICH reports errors of requests there
        if (level < MPI_THREAD_SERIALIZED)
            input_error("MPI was initialised with thread level ", level, ", expected MPI_THREAD_SERIALIZED, which is ",
                        MPI_THREAD_SERIALIZED);
        world_ = Communicator{duplicate(MPI_COMM_WORLD, timeout)};
        watchdog_.emplace(duplicate(MPI_COMM_WORLD, timeout), owns_);
        if (watchdog_->ranks() > 1)
            other_ranks = {this,
                           {.attend         = [](void* self) { static_cast<Environment*>(self)->watchdog_->attend(); },
                            .check          = [](void* self, Time since) { static_cast<Environment*>(self)->check_others(since); },
                            .one_has_failed = [](void* self) { return static_cast<Environment*>(self)->watchdog_->one_has_failed(); },
                            .give_up        = [](void* self, std::string const& sentence,
                                          CollectiveNumber number) { return static_cast<Environment*>(self)->give_up(sentence, number); }}};
    }

    static constexpr double least = 4;  // seconds that MPI may take to start, however short the timeout is

    static Endpoint duplicate(MPI_Comm communicator, double timeout) {
        MPI_Comm copy = MPI_COMM_NULL;
        check(
            with_all_ranks(std::max(timeout, least), "MPI_Comm_dup", rank_by_launcher(), [&] { return MPI_Comm_dup(communicator, &copy); }),
            "MPI_Comm_dup", 0);
        return Endpoint::adopt(copy);
    }

    using Time = std::chrono::steady_clock::time_point;

    /// Raises an error in a wait that began at `since` where other ranks have ended. Where one has failed, that one ends the job, unless it
    /// has waited too long: then this rank shows its side of it.
    void check_others(Time since) {
        watchdog_->attend();
        if (concluded_ || std::uncaught_exceptions() > exceptions_) return;
        std::size_t const ranks = watchdog_->ranks();
        std::size_t       ended = 0, first = 0;
        for (std::size_t rank = ranks; rank-- > 0;) {
            Watchdog::Word const& word = watchdog_->of(rank);
            if (word.end == Watchdog::End::failed) return;
            if (word.end == Watchdog::End::gave_up) {
                gave_up_ = true;
                throw Error(Fault::peer,
                            sentence("rank ", rank, " has given up waiting, so does rank ", watchdog_->rank()) + watchdog_->report());
            }
            if (word.end == Watchdog::End::not_yet) continue;
            ++ended;
            first = rank;
        }
        bool const last_one = ended + 1 == ranks;
        if (ended != 0 && std::chrono::steady_clock::now() - std::max(since, watchdog_->ended_at()) > (last_one ? patience : absence))
            peer_error("rank ", first, " ended the program while ",
                       ranks == 2 ? sentence("rank ", watchdog_->rank(), " waits") : std::string("others wait"), " for it");
    }

    std::string give_up(std::string const& sentence, CollectiveNumber number) {
        gave_up_                  = true;
        std::string const missing = watchdog_->missing(number);
        std::string const text    = sentence + ", " + missing + watchdog_->report(number);
        if (!runs_ || std::exchange(told_, true)) return text;
        if (farewell.count() != 0) leave_in_time();
        print(text, false);  // now: what this rank leaves may take its time
        other_ranks.reported = true;
        if (last_words) last_words();
        return text;
    }

    /// Ends this process, with its exit code, unless it ends by itself before.
    void leave_in_time() const {
        try {
            std::thread([rank = watchdog_->rank(), time = farewell] {
                std::this_thread::sleep_for(time);
                std::fprintf(stderr, "rank %zu: does not come to its end after it has given up waiting: it ends without that\n", rank);
                std::fflush(nullptr);
                std::_Exit(static_cast<int>(Fault::peer));
            }).detach();
        } catch (std::system_error const&) {  // then nobody sees to it
        }
    }

    /// Meets the other ranks at the end of the program; prints and aborts if this rank failed and they do not come.
    int conclude(std::string const& sentence, int code, bool names_rank = false) {
        concluded_               = true;
        bool const        failed = !sentence.empty();
        std::size_t const mine   = watchdog_->rank();
        {
            Turn const turn;
            watchdog_->tell_end({.sentence = failed ? std::hash<std::string>{}(sentence) | 1u : 0,
                                 .code     = code,
                                 .end      = !failed    ? Watchdog::End::well
                                             : gave_up_ ? Watchdog::End::gave_up
                                                        : Watchdog::End::failed});
        }
        if (gave_up_ && !told_) print(sentence, false);  // each rank has a report of its own
        auto const all_ended = [&] {
            Turn const turn;
            return watchdog_->all_ended();
        };
        auto const deadline = std::chrono::steady_clock::now() + patience;
        auto       asked    = std::chrono::steady_clock::now();
        for (Backoff backoff; !all_ended(); backoff.pause()) {
            auto const now = std::chrono::steady_clock::now();
            if (now - asked > std::chrono::seconds(1)) watchdog_->excuse(now - asked);  // the process did not run, as others perhaps
            asked = now;
            if (failed && now > deadline) {
                if (!gave_up_) print(sentence, false);
                abort_job(code);
            }
            if (failed || silence.count() == 0) continue;
            if (std::size_t const lost = watchdog_->silent_for_longer_than(silence); lost != mine) {
                Turn const turn;
                print(lockstep::sentence("rank ", mine, ": has come to the end and waited ", static_cast<double>(silence.count()) / 1000,
                                         " s for rank ", lost, ", which says nothing") +
                          watchdog_->report(),
                      false);
                abort_job(static_cast<int>(Fault::peer));
            }
        }

        bool         first = true, alike = true;
        std::int64_t code_of_first = 0;
        for (std::size_t rank = 0; rank < watchdog_->ranks(); ++rank) {
            Watchdog::Word const& word = watchdog_->of(rank);
            bool const            same = word.sentence == watchdog_->of(mine).sentence;
            alike                      = alike && same;
            first                      = first && !(same && rank < mine);
            failed_                    = failed_ || word.sentence != 0;
            if (code_of_first == 0) code_of_first = word.code;
        }
        if (failed && first && !gave_up_) print(sentence, alike && !names_rank);
        return static_cast<int>(code_of_first);
    }

    /// With the rank unless all raised it or it begins with it already. One line; that of a rank that has given up waiting has more, one a
    /// rank.
    void print(std::string const& sentence, bool alike) const {
        std::string const rank = lockstep::sentence("rank ", watchdog_->rank(), ": ");
        std::string       text = alike || sentence.starts_with(rank) ? "" : rank;
        for (std::string_view rest = sentence;;) {
            std::size_t const end = rest.find("\n    rank ");  // a line of a report
            text += escaped(rest.substr(0, end));
            if (end == rest.npos) break;
            text += '\n';
            rest.remove_prefix(end + 1);
        }
        std::fprintf(stderr, "%s\n", text.c_str());
    }

    void end() noexcept {
        if (!owns_) {
            if (other_ranks.object == this) other_ranks = {};
            return;
        }
        try {
            bool const unwinding = std::uncaught_exceptions() > exceptions_;
            if (!concluded_) conclude(unwinding ? "an exception leaves the program" : "", unwinding ? static_cast<int>(Fault::peer) : 0);
        } catch (Error const& error) {
            std::fprintf(stderr, "%s\n", error.what());
            abort_job(static_cast<int>(error.fault()));
        }
        if (other_ranks.object == this) other_ranks = {};
        world_                 = Communicator{Endpoint{}};
        std::size_t const rank = watchdog_->rank();
        watchdog_.reset();
        std::optional<Silence> mute;
        if (failed_) mute.emplace();  // what is left of abandoned operations is known
        // It may wait for ever: MPICH 4.0 with UCX over TCP does so now and then (mpich#6596). All ranks have said goodbye by then, so
        // nothing is lost when this one ends without it.
        within(10, lockstep::sentence("rank ", rank, ": everything is done, but MPI_Finalize does not end: this rank ends without it"),
               code_.value_or(static_cast<int>(Fault::peer)), MPI_Finalize);
    }

    bool         owns_       = false;
    bool         concluded_  = false;
    bool         failed_     = false;  // some rank did
    int          exceptions_ = std::uncaught_exceptions();
    Communicator world_{Endpoint{}};

    std::optional<Watchdog> watchdog_;
    bool                    runs_    = false;  // `run` does
    bool                    gave_up_ = false;  // this rank has waited too long
    bool                    told_    = false;  // and said so
    std::optional<int>      code_;             // of the exit, that of all ranks, where `run` knows it
};

}  // namespace lockstep::comm
