// The update of the masters that a rank owns.

#include "lockstep/train/masters.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "lockstep/nn/declaration.hpp"
#include "lockstep/optim/adam.hpp"
#include "lockstep/optim/adamw.hpp"
#include "lockstep/optim/bf16_state.hpp"
#include "lockstep/parallel/single.hpp"

namespace masters_test {

using namespace lockstep;

constexpr float least = std::numeric_limits<float>::min();  // that is no denormal

/// One row whose running means lie just above the denormal numbers, updated without a gradient.
template <class Precision, class Optimizer>
void decay_to_zero(float mean, float square) {
    using Bound = parallel::Single::Bound<Precision, tensor::ArenaStorage>;
    std::vector<state::Unit> units(1);
    nn::Declaration          declaration(units[0], {});
    declaration.matrix("w", 3, 20000, {0, 0.02f});
    Bound                                               bound({}, units, {});
    Masters<Precision, Optimizer, tensor::ArenaStorage> masters(units, {bound.owned(0)}, {});
    using State = typename decltype(masters)::State;

    masters.initialize(1);
    std::ranges::fill(bound.owned(0).gradients, 0.0f);
    auto const values = masters.values(0);
    auto const before = std::vector(values.begin(), values.end());
    std::ranges::fill(masters.state(0, 0).subspan(20000, 20000), State(mean));
    std::ranges::fill(masters.state(0, 1).subspan(20000, 20000), State(square));
    runtime::Threads threads(2);
    Optimizer        optimizer{};
    for (std::uint64_t step = 1; step <= 2; ++step) threads.run([&] { masters.update(optimizer, {.step = step, .learning_rate = 0}); });

    auto const zero = [](State x) { return static_cast<float>(x) == 0.0f; };
    for (std::size_t slot : {0u, 1u}) CHECK(std::ranges::all_of(masters.state(0, slot), zero));
    CHECK(std::ranges::equal(values, before));

    float volatile half = least;
    half                = half * 0.5f;
    CHECK(half > 0.0f);  // elsewhere denormals are what they were
}

TEST_CASE("running means without a gradient end at zero") {
    if (!kernel::DenormalsAreZero::effective) return;
    decay_to_zero<precision::Fp32, optim::AdamW>(1.05f * least, 1.02f * least);
    decay_to_zero<precision::Fp32, optim::AdamW>(-1.05f * least, 1.02f * least);
    decay_to_zero<precision::Bf16, optim::Adam>(1.05f * least, 1.02f * least);
    decay_to_zero<precision::Bf16, optim::Bf16State<optim::AdamW>>(least, least);
}

TEST_CASE("the squares of all gradients add up to the bits of one parameter after another, on any number of threads") {
    using Bound = parallel::Single::Bound<precision::Fp32, tensor::ArenaStorage>;
    std::vector<state::Unit> units(2);
    for (state::Unit& unit : units) {
        nn::Declaration declaration(unit, {});
        declaration.matrix("w", 3, 20000, {0, 0.02f});
        declaration.matrix("u", 70, 1000, {0, 0.02f});
        declaration.vector("b", 33, {0, 0.02f});
    }
    Bound                                                        bound({}, units, {});
    Masters<precision::Fp32, optim::AdamW, tensor::ArenaStorage> masters(units, {bound.owned(0), bound.owned(1)}, {});
    ExactSum                                                     right;
    for (std::size_t u : {0u, 1u}) {
        auto const gradients = bound.owned(u).gradients;
        for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = static_cast<float>(random_normal({1, 1, 0}, 1000000 * u + i));
        for (state::Parameter const& parameter : units[u].parameters)
            right += kernel::sum_of_squares(gradients.subspan(parameter.offset, parameter.range().size()), parameter.map.granule());
    }
    for (int threads : {1, 2, 3}) {
        ExactSum sum = runtime::Threads(threads).run([&] { return masters.gradient_squares(); });
        CHECK(std::ranges::equal(sum.limbs(), right.limbs()));
    }
}

TEST_CASE("discarded gradients are zero") {
    using Bound = parallel::Single::Bound<precision::Fp32, tensor::ArenaStorage>;
    std::vector<state::Unit> units(1);
    nn::Declaration          declaration(units[0], {});
    declaration.matrix("w", 3, 20000, {0, 0.02f});
    Bound                                                        bound({}, units, {});
    Masters<precision::Fp32, optim::AdamW, tensor::ArenaStorage> masters(units, {bound.owned(0)}, {});
    std::ranges::fill(bound.owned(0).gradients, 1.0f);
    runtime::Threads(2).run([&] { masters.discard_gradients(); });
    CHECK(std::ranges::all_of(bound.owned(0).gradients, [](float x) { return x == 0.0f; }));
}

}  // namespace masters_test
