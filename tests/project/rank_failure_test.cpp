// Fails on rank 1 alone: the job must fail all the same.

#include <doctest/doctest.h>

#include <cstdlib>
#include <string_view>

TEST_CASE("a check that rank 1 alone fails") {
    char const* const rank = std::getenv("PMI_RANK");  // set by MPICH's mpiexec
    if (rank == nullptr) return;
    CHECK(std::string_view(rank) != "1");
}
