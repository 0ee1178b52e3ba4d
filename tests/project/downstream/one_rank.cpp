// A program that uses the rooms of one rank only.
#include <lockstep/core/config.hpp>
#include <lockstep/precision/bfloat16.hpp>
#include <lockstep/runtime/parallel_for.hpp>
#include <lockstep/tensor/view.hpp>

#include <array>
#include <cstdio>

int main() {
    std::array<float, 12>            numbers{};
    lockstep::tensor::View<float, 2> matrix{numbers.data(), {3, 4}};
    lockstep::runtime::Threads       threads{2};
    threads.run(
        [&] { lockstep::runtime::parallel_for(3, 1 << 20, [&](std::size_t row) { matrix(row, 1) = static_cast<float>(row) + 1.001f; }); });

    float const sum = static_cast<float>(lockstep::precision::bfloat16(matrix(0, 1) + matrix(1, 1) + matrix(2, 1)));
    std::printf("lockstep %s: %g\n", LOCKSTEP_VERSION, static_cast<double>(sum));
    return sum == 6.0f ? 0 : 1;
}
