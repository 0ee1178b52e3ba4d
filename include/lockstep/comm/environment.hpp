#pragma once
// MPI from the first call to the last, and how a program of many ranks ends.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::comm {

/// Initialises MPI unless that was done before, and then finalises it. One thread at a time may call MPI.
///
/// A program ends in one of two ways. Where all ranks come to the end, well or by an error that all raise alike, it ends in an
/// orderly manner. Where one rank fails while the others wait for it, the whole job is brought down: a rank that leaves by an
/// exception gives the others `patience` to come to the end too, then calls MPI_Abort.
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

    /// Runs the program and returns its exit code, on all ranks that of the first one that failed. An error's sentence is printed
    /// once; with the rank where not all ranks raised it. `body()` returns an exit code.
    template <class Body>
    int run(Body&& body) {
        try {
            return conclude({}, std::forward<Body>(body)());
        } catch (Error const& error) {
            return conclude(error.what(), static_cast<int>(error.fault()));
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
    }

    static Endpoint duplicate(MPI_Comm communicator) {
        MPI_Comm copy = MPI_COMM_NULL;
        check(MPI_Comm_dup(communicator, &copy), "MPI_Comm_dup", 0);
        return Endpoint::adopt(copy);
    }

    struct Last {  // what each rank tells the others at its end
        std::uint64_t sentence;
        std::int64_t  code;
    };

    /// Meets the other ranks at the end of the program; prints and aborts if this rank failed and they do not come.
    int conclude(std::string const& sentence, int code) {
        concluded_               = true;
        bool const        failed = !sentence.empty();
        auto const        mine   = static_cast<std::size_t>(farewell_.rank());
        std::vector<Last> last(static_cast<std::size_t>(farewell_.size()));
        last[mine] = {failed ? std::hash<std::string>{}(sentence) : 0, code};
        Request meeting(farewell_, "the end of the program", 1);
        if (last.size() > 1)
            meeting.add([&](MPI_Request* request) {
                return MPI_Iallgather(MPI_IN_PLACE, 0, MPI_BYTE, last.data(), sizeof(Last), MPI_BYTE, farewell_.handle(), request);
            });
        auto const deadline = std::chrono::steady_clock::now() + patience;
        for (Backoff backoff; !meeting.test(); backoff.pause())
            if (failed && std::chrono::steady_clock::now() > deadline) {
                print(sentence, false);
                std::fflush(nullptr);
                MPI_Abort(MPI_COMM_WORLD, code);
                std::_Exit(code);
            }

        bool first = true, alike = true;
        for (std::size_t rank = 0; rank < last.size(); ++rank) {
            bool const same = last[rank].sentence == last[mine].sentence;
            alike           = alike && same;
            first           = first && !(same && rank < mine);
        }
        if (failed && first) print(sentence, alike);
        for (Last const& other : last)
            if (other.code != 0) return static_cast<int>(other.code);
        return code;
    }

    void print(std::string const& sentence, bool alike) const {
        if (alike)
            std::fprintf(stderr, "%s\n", sentence.c_str());
        else
            std::fprintf(stderr, "rank %d: %s\n", farewell_.rank(), sentence.c_str());
    }

    void end() noexcept {
        if (!owns_) return;
        try {
            bool const unwinding = std::uncaught_exceptions() > exceptions_;
            if (!concluded_) conclude(unwinding ? "an exception leaves the program" : "", unwinding ? static_cast<int>(Fault::peer) : 0);
        } catch (Error const& error) {
            std::fprintf(stderr, "%s\n", error.what());
            MPI_Abort(MPI_COMM_WORLD, static_cast<int>(error.fault()));
        }
        world_    = Communicator{Endpoint{}};
        farewell_ = Endpoint{};
        MPI_Finalize();
    }

    bool         owns_       = false;
    bool         concluded_  = false;
    int          exceptions_ = std::uncaught_exceptions();
    Communicator world_{Endpoint{}};
    Endpoint     farewell_;
};

}  // namespace lockstep::comm
