// What holds of head and cross entropy wherever the weight lies; tiles_head_test.cpp has the values on tiles.

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/kernel/head_loss.hpp"

namespace head_loss_test {

using namespace lockstep;

TEST_CASE("memory that is too small for a chunk of logits is an error") {
    constexpr std::size_t             N = 3, V = 5, C = 2;
    std::array<float, N * C>          h{}, dh{};
    std::array<float, V * C>          weight{}, gradient{};
    std::array<float, N>              loss{}, lse{};
    std::array<std::int32_t, N> const labels{0, 4, ignored_label};
    state::MatrixMap const            map(V, C, {});
    state::Matrix<float const> const  w{weight.data(), map};
    kernel::HeadChunk const           chunk = kernel::head_chunk(N, V, kernel::logit_storage(w));
    std::vector<std::byte>            memory(chunk.bytes);
    tensor::View<float, 2> const      x(h.data(), {N, C}), dx(dh.data(), {N, C});
    tensor::View<float, 1> const      losses(loss.data(), {N}), sums(lse.data(), {N});
    std::span<std::byte> const        enough(memory), less = enough.first(chunk.bytes - 1);
    std::string const sentence = ": memory must have " + std::to_string(chunk.bytes) + " bytes, found " + std::to_string(chunk.bytes - 1);

    auto const backward = [&](std::span<std::byte> in) {
        kernel::head_loss_backward(x, w, w, labels, 1.0f, losses, sums, state::Matrix<float>{gradient.data(), map}, dx, in);
    };
    CHECK_THROWS_WITH_AS(kernel::head_loss(x, w, labels, losses, sums, less), ("head_loss" + sentence).c_str(), Error);
    CHECK_THROWS_WITH_AS(backward(less), ("head_loss_backward" + sentence).c_str(), Error);
    kernel::head_loss(x, w, labels, losses, sums, enough);
    CHECK(loss[1] == doctest::Approx(1.6094379f));
    CHECK(loss[2] == 0.0f);
    backward(enough);
    CHECK(loss[1] == doctest::Approx(1.6094379f));
}

}  // namespace head_loss_test
