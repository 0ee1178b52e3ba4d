// What sharding rests on: an element's update depends on no other element and on no place where a slice begins or ends.

#include <doctest/doctest.h>

#include "lion.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/optim/adam.hpp"
#include "lockstep/optim/adamw.hpp"
#include "lockstep/optim/sgd.hpp"
#include "lockstep/state/shard.hpp"
#include "trained.hpp"

namespace elementwise_test {

using namespace lockstep;
using optim::Adam;
using optim::AdamW;
using optim::Sgd;

template <class O>
O options() {
    if constexpr (std::is_same_v<O, Sgd>)
        return {.momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1};
    else if constexpr (std::is_same_v<O, Adam>)
        return {.weight_decay = 0.1};
    else
        return {};
}

template <class T>
std::vector<T> normal(std::size_t size, std::uint32_t purpose, double deviation) {
    std::vector<T> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<T>(deviation * random_normal({.seed = 7, .purpose = purpose}, i));
    return values;
}

template <class O, class T>
void same_bits_however_it_is_cut() {
    constexpr std::size_t      size = 101;
    Trained<O, T>              whole{options<O>(), normal<T>(size, 0, 0.1)};
    std::vector<Trained<O, T>> cut(size, whole);
    for (std::uint32_t step = 1; step <= 3; ++step) {
        std::vector<T> const  gradients = normal<T>(size, step, 0.01);
        optim::StepInfo const info{.step = step, .learning_rate = 1e-2, .gradient_scale = 0.37};
        whole.update({0, size}, gradients, info);
        for (std::size_t at = 0; at < size; ++at) {
            cut[at].update({at, size}, gradients, info);
            cut[at].update({0, at}, gradients, info);
            CHECK(cut[at].values == whole.values);
            CHECK(cut[at].state == whole.state);
        }
    }
}

TEST_CASE_TEMPLATE("an update has the same bits wherever slices are cut", O, Sgd, Adam, AdamW) {
    same_bits_however_it_is_cut<O, float>();
    same_bits_however_it_is_cut<O, double>();
}

TEST_CASE_TEMPLATE("an update by shards has the same bits for any number of ranks", O, Sgd, Adam, AdamW) {
    constexpr std::size_t    size      = 37;
    std::vector<float> const gradients = normal<float>(size, 1, 0.01);
    optim::StepInfo const    info{.step = 1, .learning_rate = 1e-2, .gradient_scale = 1};
    Trained<O, float> const  start{options<O>(), normal<float>(size, 0, 0.1)};
    Trained<O, float>        whole = start;
    whole.update({0, size}, gradients, info);
    for (std::size_t ranks = 1; ranks <= size + 1; ++ranks) {
        Trained<O, float> sharded = start;
        for (Range const shard : state::even_ranges({0, size}, ranks)) sharded.update(shard, gradients, info);
        CHECK(sharded.values == whole.values);
    }
}

TEST_CASE_TEMPLATE("padding stays zero", O, Sgd, Adam, AdamW, Lion) {
    Trained<O, float> padded{options<O>(), {0.5f, 0, 0, 0}};
    for (int step = 0; step < 5; ++step) padded.update({0.1f, 0, 0, 0}, 0.1);
    CHECK(padded.values[0] != 0.5f);
    for (std::size_t i = 1; i < 4; ++i) {
        CHECK(padded.values[i] == 0);
        for (auto const& slot : padded.state) CHECK(slot[i] == 0);
    }
}

}  // namespace elementwise_test
