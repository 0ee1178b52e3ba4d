// State in bfloat16: as good as fp32 on average, and the same bits however the elements are shared out.

#include "lockstep/optim/bf16_state.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "lockstep/optim/sgd.hpp"

namespace bf16_state_test {

using namespace lockstep;
using optim::AdamW;
using optim::Bf16State;

using State = std::vector<std::vector<precision::bfloat16>>;

state::Parameter parameter_of(std::size_t size, std::uint32_t purpose = 7) {
    state::Parameter parameter{.name = "w", .rows = 1, .columns = size, .dimensions = 2, .map = {1, size}, .decays = true, .initial = {}};
    parameter.purpose = purpose;
    return parameter;
}

/// One update of the elements of `range`.
template <class O>
void update(O const& optimizer, state::Parameter const& parameter, Range range, std::vector<float>& values,
            std::vector<float> const& gradients, State& state, std::uint64_t step) {
    optim::Slots<O, float> slots;
    for (std::size_t s = 0; s < slots.size(); ++s) slots[s] = std::span(state[s]).subspan(range.begin, range.size());
    optimizer.update(optim::Slice<float>{parameter, range, std::span(values).subspan(range.begin, range.size()),
                                         std::span<float const>(gradients).subspan(range.begin, range.size())},
                     slots, {.step = step, .learning_rate = 1e-3, .gradient_scale = 1});
}

/// Values and both states after some steps, the elements shared out in ranges of the given length.
std::pair<std::vector<float>, State> trained(std::size_t piece, std::uint64_t seed = 1, std::uint32_t purpose = 7) {
    std::size_t const      n         = 1000;
    auto const             parameter = parameter_of(n, purpose);
    Bf16State<AdamW> const optimizer{.optimizer = {}, .seed = seed};
    std::vector<float>     values(n, 1.0f), gradients(n);
    State                  state(2, std::vector<precision::bfloat16>(n));
    for (std::uint64_t step = 1; step <= 5; ++step) {
        for (std::size_t i = 0; i < n; ++i) gradients[i] = static_cast<float>(random_normal({3, 1, static_cast<std::uint32_t>(step)}, i));
        for (std::size_t begin = 0; begin < n; begin += piece)
            update(optimizer, parameter, {begin, std::min(n, begin + piece)}, values, gradients, state, step);
    }
    return {values, state};
}

bool same(State const& a, State const& b) {
    bool equal = true;
    for (std::size_t s = 0; s < a.size(); ++s)
        for (std::size_t i = 0; i < a[s].size(); ++i) equal = equal && a[s][i].bits == b[s][i].bits;
    return equal;
}

static_assert(std::same_as<optim::StateElement<Bf16State<AdamW>, float>, precision::bfloat16>);
static_assert(std::same_as<optim::StateElement<AdamW, float>, float>);
static_assert(optim::elementwise_optimizer<Bf16State<optim::Sgd>, float>);

TEST_CASE("the bits do not depend on how the elements are shared out") {
    auto const whole = trained(1000);
    for (std::size_t piece : {1u, 3u, 63u, 64u, 65u, 333u}) {
        auto const parts = trained(piece);
        CHECK(parts.first == whole.first);
        CHECK(same(parts.second, whole.second));
    }
}

TEST_CASE("the rounding depends on the seed and on the parameter") {
    auto const one = trained(1000);
    CHECK(!same(trained(1000, 2).second, one.second));
    CHECK(!same(trained(1000, 1, 8).second, one.second));
}

TEST_CASE("small changes of the running means are kept on average, where rounding to nearest would lose them") {
    std::size_t const      n         = 4096;
    auto const             parameter = parameter_of(n);
    Bf16State<AdamW> const optimizer{.optimizer = {.beta1 = 0.99, .beta2 = 0.999, .weight_decay = 0}};
    std::vector<float>     values(n, 0.0f), gradients(n);
    State                  state(2, std::vector<precision::bfloat16>(n));
    double                 mean = 0, square = 0;  // of one element, exactly
    float                  nearest = 0;           // the square, rounded to nearest after each step
    for (std::uint64_t step = 1; step <= 3000; ++step) {
        double const g = step < 20 ? 4.0 : 1.0;
        std::fill(gradients.begin(), gradients.end(), static_cast<float>(g));
        update(optimizer, parameter, {0, n}, values, gradients, state, step);
        mean    = 0.99 * mean + 0.01 * g;
        square  = 0.999 * square + 0.001 * g * g;
        nearest = precision::bfloat16(0.999f * nearest + 0.001f * static_cast<float>(g * g));
    }
    double found_mean = 0, found_square = 0;
    for (std::size_t i = 0; i < n; ++i) {
        found_mean += static_cast<double>(static_cast<float>(state[0][i])) / static_cast<double>(n);
        found_square += static_cast<double>(static_cast<float>(state[1][i])) / static_cast<double>(n);
    }
    CHECK(found_mean == doctest::Approx(mean).epsilon(2e-3));
    CHECK(found_square == doctest::Approx(square).epsilon(5e-3));
    CHECK(std::fabs(nearest - square) > 0.05 * square);
}

TEST_CASE("infinities and NaN of a state stay") {
    auto const             parameter = parameter_of(4);
    std::vector<float>     values(4, 1.0f), gradients(4, 0.0f);
    State                  state(2, std::vector<precision::bfloat16>(4));
    Bf16State<AdamW> const optimizer;
    state[1][0] = precision::bfloat16(INFINITY), state[0][1] = precision::bfloat16(NAN);
    update(optimizer, parameter, {0, 4}, values, gradients, state, 1);
    CHECK(std::isinf(static_cast<float>(state[1][0])));
    CHECK(std::isnan(static_cast<float>(state[0][1])));
    CHECK(static_cast<float>(state[0][2]) == 0.0f);
}

}  // namespace bf16_state_test
