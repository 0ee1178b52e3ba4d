// Masks are functions of seed, version, sample and place, and of nothing else.

#include "lockstep/nn/dropout.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "lockstep/nn/attention.hpp"

namespace dropout_test {

using namespace lockstep;

/// What a forward pass depends on.
struct Call {
    std::uint64_t seed = 3, version = 8, first_sample = 0;
    std::size_t   unit = 2, batch = 4, sequence = 5;
    bool          training = true;
};

/// The output of a module without parameters for rows of `columns` inputs, made by their place in the whole batch.
template <class M>
std::vector<float> output(M const& module, std::size_t columns, Call const& call, float (*input)(std::size_t)) {
    tensor::ArenaStorage::Workspace       workspace;
    nn::Pass<float, tensor::ArenaStorage> pass;
    pass.workspace    = &workspace;
    pass.place        = call.unit;
    pass.batch        = call.batch;
    pass.sequence     = call.sequence;
    pass.training     = call.training;
    pass.seed         = call.seed;
    pass.version      = call.version;
    pass.first_sample = call.first_sample;
    auto const x      = pass.activation(pass.tokens(), columns);
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = input(call.first_sample * call.sequence * columns + i);
    nn::Saved<M, float> saved;
    auto const          y = module.forward(pass, x, saved);
    return {y.flat().begin(), y.flat().end()};
}

std::vector<float> dropped(Call const& call, std::uint32_t site = 1, std::size_t columns = 7) {
    return output(nn::Dropout{0.5f, site}, columns, call, [](std::size_t) { return 1.0f; });
}
std::vector<float> attended(Call const& call, std::uint32_t site = 1) {
    return output(nn::CausalAttention{"a", {4, 2, 3}, 0.5f, site}, 24, call, [](std::size_t i) {
        return static_cast<float>(random_normal({9, 9, 9}, i));
    });
}

template <class F>
void depends_on_version_sample_and_place_only(F const& mask) {
    std::vector<float> const whole = mask(Call{}, 1u);
    CHECK(mask(Call{}, 1u) == whole);
    CHECK(mask(Call{}, 2u) != whole);
    CHECK(mask(Call{.seed = 4}, 1u) != whole);
    CHECK(mask(Call{.version = 9}, 1u) != whole);
    CHECK(mask(Call{.unit = 3}, 1u) != whole);

    // The same samples on other ranks or in other micro-steps.
    std::vector<float> parts;
    for (std::uint64_t sample = 0; sample < 4; ++sample) {
        std::vector<float> const one = mask(Call{.first_sample = sample, .batch = 1}, 1u);
        parts.insert(parts.end(), one.begin(), one.end());
    }
    CHECK(parts == whole);
    std::vector<float> const first(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(parts.size() / 4));
    CHECK_FALSE(std::search(parts.begin() + 1, parts.end(), first.begin(), first.end()) != parts.end());  // no two samples alike
}

TEST_CASE("the mask of Dropout depends on version, sample and place only") {
    depends_on_version_sample_and_place_only([](Call const& call, std::uint32_t site) { return dropped(call, site); });
}

TEST_CASE("the mask of attention weights depends on version, sample and place only") {
    depends_on_version_sample_and_place_only([](Call const& call, std::uint32_t site) { return attended(call, site); });
}

TEST_CASE("Dropout drops its share, scales the rest, and nothing where it does not train") {
    auto const mask = dropped({.batch = 20, .sequence = 50});
    auto const zero = static_cast<double>(std::count(mask.begin(), mask.end(), 0.0f));
    auto const two  = static_cast<double>(std::count(mask.begin(), mask.end(), 2.0f));
    CHECK(zero + two == 7000);
    CHECK(std::abs(zero - 3500) < 5 * std::sqrt(7000 * 0.25));
    auto const whole = dropped({.training = false});
    CHECK(std::count(whole.begin(), whole.end(), 1.0f) == 4 * 5 * 7);
}

TEST_CASE("two places of a unit are declared apart") {
    state::Unit     unit{.name = "unit", .parameters = {}};
    nn::Declaration declaration(unit);
    nn::Dropout     first{0.5f}, second{0.5f};
    first.declare(declaration);
    second.declare(declaration);
    CHECK(first.random_site != second.random_site);
}

}  // namespace dropout_test
