// The main of every test program. Built with LOCKSTEP_TEST_WITH_MPI it runs on several ranks, and a failure on one is a failure of all.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#ifndef LOCKSTEP_TEST_WITH_MPI

int main(int argc, char** argv) {
    doctest::Context context(argc, argv);
    return context.run();
}

#else

#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <thread>

namespace {

/// The largest code of all ranks. Where this rank failed and others do not come within 20 s, they wait for it in a test: the job ends.
int agreed(int code, MPI_Comm ranks) {
    using namespace std::chrono_literals;
    int         all     = 0;
    int         arrived = 0;
    MPI_Request request{};
    MPI_Iallreduce(&code, &all, 1, MPI_INT, MPI_MAX, ranks, &request);
    auto const deadline = std::chrono::steady_clock::now() + 20s;
    while (MPI_Test(&request, &arrived, MPI_STATUS_IGNORE), arrived == 0) {
        if (code != 0 && std::chrono::steady_clock::now() > deadline) MPI_Abort(MPI_COMM_WORLD, code);
        std::this_thread::sleep_for(200us);
    }
    return all;
}

}  // namespace

int main(int argc, char** argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm ranks{};
    MPI_Comm_dup(MPI_COMM_WORLD, &ranks);
    int rank = 0;
    MPI_Comm_rank(ranks, &rank);

    doctest::Context context(argc, argv);
    if (rank != 0) context.setOption("minimal", true);  // speaks up only to report a failure
    int code = provided >= MPI_THREAD_SERIALIZED ? context.run() : 1;
    if (code != 0) std::fprintf(stderr, "rank %d: failed\n", rank);

    code = agreed(code, ranks);
    MPI_Comm_free(&ranks);
    MPI_Finalize();
    return code;
}

#endif
