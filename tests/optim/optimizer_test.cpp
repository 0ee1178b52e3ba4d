#include "lockstep/optim/optimizer.hpp"

#include <doctest/doctest.h>

#include "lion.hpp"
#include "lockstep/optim/adam.hpp"
#include "lockstep/optim/adamw.hpp"
#include "lockstep/optim/sgd.hpp"
#include "trained.hpp"

namespace optimizer_test {

using namespace lockstep::optim;

// Near misses: each lacks one thing of the contract.

struct Plain {  // lacks nothing
    static constexpr std::size_t state_slots = 0;
    template <class T>
    void update(Slice<T>, Slots<Plain, T>, StepInfo) const noexcept {}
};
struct NoSlots {
    template <class T>
    void update(Slice<T>, std::array<std::span<T>, 1>, StepInfo) const noexcept {}
};
struct SlotsAtRunTime {
    std::size_t state_slots = 1;
    template <class T>
    void update(Slice<T>, std::array<std::span<T>, 1>, StepInfo) const noexcept {}
};
struct SlotsOfText {
    static constexpr char const* state_slots = "two";
};
struct NoUpdate {
    static constexpr std::size_t state_slots = 1;
};
struct UpdateMayThrow {
    static constexpr std::size_t state_slots = 1;
    template <class T>
    void update(Slice<T>, Slots<UpdateMayThrow, T>, StepInfo) const {}
};
struct UpdateChangesOptions {
    static constexpr std::size_t state_slots = 1;
    template <class T>
    void update(Slice<T>, Slots<UpdateChangesOptions, T>, StepInfo) noexcept {}
};
struct UpdateReturns {
    static constexpr std::size_t state_slots = 1;
    template <class T>
    int update(Slice<T>, Slots<UpdateReturns, T>, StepInfo) const noexcept {
        return 0;
    }
};
struct UpdateWithoutStep {
    static constexpr std::size_t state_slots = 1;
    template <class T>
    void update(Slice<T>, Slots<UpdateWithoutStep, T>) const noexcept {}
};
struct UpdateOfAnotherSlotCount {
    static constexpr std::size_t state_slots = 1;
    template <class T>
    void update(Slice<T>, std::array<std::span<T>, 2>, StepInfo) const noexcept {}
};
struct UpdateOfDoubleOnly {
    static constexpr std::size_t state_slots = 0;
    void                         update(Slice<double>, Slots<UpdateOfDoubleOnly, double>, StepInfo) const noexcept {}
};

static_assert(optimizer<Plain, float> && optimizer<Plain, double>);
static_assert(!declares_state_slots<NoSlots> && !optimizer<NoSlots, float>);
static_assert(!declares_state_slots<SlotsAtRunTime> && !optimizer<SlotsAtRunTime, float>);
static_assert(!declares_state_slots<SlotsOfText> && !optimizer<SlotsOfText, float>);
static_assert(declares_state_slots<NoUpdate> && !updates_in_place<NoUpdate, float> && !optimizer<NoUpdate, float>);
static_assert(!updates_in_place<UpdateMayThrow, float> && !optimizer<UpdateMayThrow, float>);
static_assert(!updates_in_place<UpdateChangesOptions, float> && !optimizer<UpdateChangesOptions, float>);
static_assert(!updates_in_place<UpdateReturns, float> && !optimizer<UpdateReturns, float>);
static_assert(!updates_in_place<UpdateWithoutStep, float> && !optimizer<UpdateWithoutStep, float>);
static_assert(!updates_in_place<UpdateOfAnotherSlotCount, float> && !optimizer<UpdateOfAnotherSlotCount, float>);
static_assert(optimizer<UpdateOfDoubleOnly, double> && !optimizer<UpdateOfDoubleOnly, float>);
static_assert(!optimizer<int, float>);

static_assert(!elementwise_optimizer<Plain, float>);  // an optimizer, but it does not say that it may be cut anywhere
static_assert(elementwise_optimizer<Sgd, float> && elementwise_optimizer<Adam, float>);
static_assert(elementwise_optimizer<AdamW, float> && elementwise_optimizer<Lion, float>);

TEST_CASE("an optimizer of a user's own, Lion, steps by the sign of its momentum and decays apart from it") {
    Trained<Lion> lion{{}, {1, 1, 1}};
    lion.update({0.5, -2, 0}, 0.1);
    CHECK(lion.values[0] == doctest::Approx(0.99 - 0.1));
    CHECK(lion.values[1] == doctest::Approx(0.99 + 0.1));
    CHECK(lion.values[2] == doctest::Approx(0.99));
    CHECK(lion.state[0][0] == doctest::Approx(0.005));
    lion.update({-0.01, 0.5, 0}, 0.1);  // .9 * .005 - .1 * .01 > 0, although the gradient points the other way
    CHECK(lion.values[0] == doctest::Approx(0.89 * 0.99 - 0.1));
    CHECK(lion.values[1] == doctest::Approx(1.09 * 0.99 - 0.1));  // .9 * -.02 + .1 * .5 > 0
}

TEST_CASE("options are set by name and kept as they were given") {
    constexpr AdamW options{.beta2 = 0.99, .weight_decay = 0.01};
    static_assert(options.beta1 == 0.9 && options.beta2 == 0.99 && options.epsilon == 1e-8 && options.weight_decay == 0.01);
    static_assert(Adam{}.weight_decay == 0 && Sgd{}.momentum == 0);
    CHECK(Trained<AdamW>{options, {1, 2}}.state.size() == 2);
    CHECK(Trained<Sgd>{{}, {1, 2}}.state.size() == 1);
}

}  // namespace optimizer_test
