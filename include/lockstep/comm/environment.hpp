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
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/communicator.hpp"
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
    Environment() { begin(nullptr, nullptr); }
    Environment(int& argc, char**& argv) { begin(&argc, &argv); }
    Environment(Environment const&)            = delete;
    Environment& operator=(Environment const&) = delete;
    ~Environment() { end(); }

    Communicator const& world() const noexcept { return world_; }

    /// How long a failed rank waits for the others before it ends the job.
    std::chrono::milliseconds patience{2000};

    /// How long a rank waits for others of which some have ended.
    std::chrono::milliseconds absence{300'000};

    /// Runs the program and returns its exit code, on all ranks that of the first one that failed. An error's sentence is printed
    /// once; with the rank where not all ranks raised it. `body()` returns an exit code.
    template <class Body>
    int run(Body&& body) {
        try {
            return conclude({}, std::forward<Body>(body)());
        } catch (Error const& error) {
            return conclude(error.what(), static_cast<int>(error.fault()));
        } catch (std::bad_alloc const& error) {
            return conclude(error.what(), static_cast<int>(Fault::peer), true);
        } catch (std::exception const& error) {
            return conclude(error.what(), static_cast<int>(Fault::peer));
        }
    }

private:
    void begin(int* argc, char*** argv) {
        int initialized = 0, level = MPI_THREAD_SINGLE;
        MPI_Initialized(&initialized);
        ::setenv("HWLOC_HIDE_ERRORS", "2", 0);  // where there is no /sys, MPICH's hwloc says so on standard error, once a rank
        if (initialized)
            MPI_Query_thread(&level);
        else
            check(MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread", 0);
        owns_ = !initialized;
        if (owns_) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // MPICH reports errors of requests there
        if (level < MPI_THREAD_SERIALIZED)
            input_error("MPI was initialised with thread level ", level, ", expected MPI_THREAD_SERIALIZED, which is ",
                        MPI_THREAD_SERIALIZED);
        world_    = Communicator{duplicate(MPI_COMM_WORLD)};
        farewell_ = duplicate(MPI_COMM_WORLD);
        last_.resize(static_cast<std::size_t>(farewell_.size()));
        if (last_.size() > 1) long_wait = {this, [](void* self, Time since) { static_cast<Environment*>(self)->check_others(since); }};
    }

    static Endpoint duplicate(MPI_Comm communicator) {
        MPI_Comm copy = MPI_COMM_NULL;
        check(MPI_Comm_dup(communicator, &copy), "MPI_Comm_dup", 0);
        return Endpoint::adopt(copy);
    }

    using Time = std::chrono::steady_clock::time_point;

    struct Last {  // what each rank tells the others at its end
        std::uint64_t sentence = 0;
        std::int64_t  code     = 0;
        std::int64_t  ended    = 0;
    };

    /// Raises an error in a wait that began at `since` where other ranks have ended. Where one has failed, that one ends the job. The
    /// caller holds the turn to call MPI.
    void check_others(Time since) {
        if (concluded_ || std::uncaught_exceptions() > exceptions_) return;
        for (int arrived = 1; arrived != 0;) {
            MPI_Status status;
            MPI_Iprobe(MPI_ANY_SOURCE, farewell_tag, farewell_.handle(), &arrived, &status);
            if (arrived == 0) break;
            MPI_Recv(&last_[static_cast<std::size_t>(status.MPI_SOURCE)], sizeof(Last), MPI_BYTE, status.MPI_SOURCE, farewell_tag,
                     farewell_.handle(), MPI_STATUS_IGNORE);
            ended_at_ = std::chrono::steady_clock::now();
        }
        std::size_t ended = 0, first = 0;
        for (std::size_t rank = last_.size(); rank-- > 0;) {
            if (last_[rank].ended == 0) continue;
            if (last_[rank].sentence != 0) return;
            ++ended;
            first = rank;
        }
        bool const last_one = ended + 1 == last_.size();
        if (ended != 0 && std::chrono::steady_clock::now() - std::max(since, ended_at_) > (last_one ? patience : absence))
            peer_error("rank ", first, " ended the program while ",
                       last_.size() == 2 ? sentence("rank ", farewell_.rank(), " waits") : std::string("others wait"), " for it");
    }

    /// Meets the other ranks at the end of the program; prints and aborts if this rank failed and they do not come.
    int conclude(std::string const& sentence, int code, bool names_rank = false) {
        concluded_               = true;
        bool const        failed = !sentence.empty();
        auto const        mine   = static_cast<std::size_t>(farewell_.rank());
        std::vector<Last> last   = last_;
        last[mine]               = {failed ? std::hash<std::string>{}(sentence) | 1u : 0, code, 1};
        Request meeting(farewell_, "the end of the program", 2 * last.size());
        for (std::size_t rank = 0; rank < last.size(); ++rank)
            if (rank != mine && last[rank].ended == 0)
                meeting.receive(std::as_writable_bytes(std::span(&last[rank], 1)), static_cast<int>(rank), farewell_tag);
        for (std::size_t rank = 0; rank < last.size(); ++rank)
            if (rank != mine) meeting.send(std::as_bytes(std::span(&last[mine], 1)), static_cast<int>(rank), farewell_tag);
        auto const deadline = std::chrono::steady_clock::now() + patience;
        for (Backoff backoff; !meeting.test(); backoff.pause())
            if (failed && std::chrono::steady_clock::now() > deadline) {
                print(sentence, false);
                abort_job(code);
            }

        bool first = true, alike = true;
        for (std::size_t rank = 0; rank < last.size(); ++rank) {
            bool const same = last[rank].sentence == last[mine].sentence;
            alike           = alike && same;
            first           = first && !(same && rank < mine);
        }
        if (failed && first) print(sentence, alike && !names_rank);
        for (Last const& other : last) failed_ = failed_ || other.sentence != 0;
        for (Last const& other : last)
            if (other.code != 0) return static_cast<int>(other.code);
        return code;
    }

    /// One line, with the rank unless all raised it or it begins with it already.
    void print(std::string const& sentence, bool alike) const {
        std::string const rank = lockstep::sentence("rank ", farewell_.rank(), ": ");
        std::fprintf(stderr, "%s%s\n", alike || sentence.starts_with(rank) ? "" : rank.c_str(), escaped(sentence).c_str());
    }

    void end() noexcept {
        if (!owns_) {
            if (long_wait.object == this) long_wait = {};
            return;
        }
        try {
            bool const unwinding = std::uncaught_exceptions() > exceptions_;
            if (!concluded_) conclude(unwinding ? "an exception leaves the program" : "", unwinding ? static_cast<int>(Fault::peer) : 0);
        } catch (Error const& error) {
            std::fprintf(stderr, "%s\n", error.what());
            abort_job(static_cast<int>(error.fault()));
        }
        if (long_wait.object == this) long_wait = {};
        world_    = Communicator{Endpoint{}};
        farewell_ = Endpoint{};
        std::optional<Silence> silence;
        if (failed_) silence.emplace();  // what is left of abandoned operations is known
        MPI_Finalize();
    }

    bool         owns_       = false;
    bool         concluded_  = false;
    bool         failed_     = false;  // some rank did
    int          exceptions_ = std::uncaught_exceptions();
    Communicator world_{Endpoint{}};
    Endpoint     farewell_;

    std::vector<Last> last_;        // of the others, what has arrived before this rank's end
    Time              ended_at_{};  // when the last of it arrived

    static constexpr int farewell_tag = 1;
};

}  // namespace lockstep::comm
