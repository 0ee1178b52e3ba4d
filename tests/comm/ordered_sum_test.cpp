#include "lockstep/comm/ordered_sum.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "reduction_cases.hpp"

namespace ordered_sum_test {

using lockstep::comm::ordered_sum;
using lockstep::comm::Wire;
using lockstep::precision::bfloat16;

/// Sums `count` elements over `ranks` leaves of type W and counts the elements whose bits differ from the serial tree's.
template <class T, class W>
std::size_t wrong_bits(int ranks, std::size_t count, Wire wire, bool add) {
    std::vector<std::vector<W>> leaves(static_cast<std::size_t>(ranks), std::vector<W>(count));
    for (std::size_t rank = 0; rank < leaves.size(); ++rank)
        for (std::size_t i = 0; i < count; ++i) leaves[rank][i] = W(comm_test::contribution<T>(9, rank, i));
    std::vector<T> out(count, T(0.75));
    ordered_sum([&](int rank) { return leaves[static_cast<std::size_t>(rank)].data(); }, ranks, count, out.data(), add);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
        T const sum = comm_test::serial_tree<T>(9, leaves.size(), i, wire);
        wrong += !comm_test::same_bits(out[i], add ? T(0.75) + sum : sum);
    }
    return wrong;
}

TEST_CASE("sums have the bits of the serial tree for any number of ranks and elements") {
    for (int ranks = 1; ranks <= 40; ++ranks)
        for (std::size_t count : {0u, 1u, 511u, 512u, 513u, 1100u}) {
            CHECK(wrong_bits<float, float>(ranks, count, Wire::fp32, false) == 0);
            CHECK(wrong_bits<float, bfloat16>(ranks, count, Wire::bf16, true) == 0);
        }
    for (int ranks : {63, 64, 65, 127, 1000}) {
        CHECK(wrong_bits<float, float>(ranks, 20, Wire::fp32, true) == 0);
        CHECK(wrong_bits<double, double>(ranks, 20, Wire::fp32, false) == 0);
    }
}

TEST_CASE("the order of the sum shows in these cases") {
    std::size_t different = 0;
    for (std::size_t i = 0; i < 200; ++i) {
        float sum = 0;
        for (std::size_t rank = 0; rank < 7; ++rank) sum += comm_test::contribution<float>(9, rank, i);
        different += !comm_test::same_bits(sum, comm_test::serial_tree<float>(9, 7, i, Wire::fp32));
    }
    CHECK(different > 20);
}

TEST_CASE("TRAPS 12: {1e8,-1e8,1,1} is 2 in a tree of pairs") {
    float const values[4] = {1e8f, -1e8f, 1.0f, 1.0f};
    float       sum       = 0;
    ordered_sum([&](int rank) { return values + rank; }, 4, 1, &sum, false);
    CHECK(sum == 2.0f);
}

}  // namespace ordered_sum_test
