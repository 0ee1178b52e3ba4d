#include "lockstep/optim/groups.hpp"

#include <doctest/doctest.h>

#include "lockstep/optim/adamw.hpp"
#include "trained.hpp"

using namespace lockstep;
using optim::ParameterGroups;

namespace {
state::Parameter named(std::string name, int dimensions) {
    state::Parameter parameter = a_parameter(4, dimensions);
    parameter.name             = std::move(name);
    parameter.decays           = false;
    return parameter;
}
}  // namespace

TEST_CASE("TRAPS 19: without rules, tensors of two or more dimensions decay and others do not") {
    ParameterGroups const groups;
    CHECK(groups.of(named("h.0.mlp.c_fc.weight", 2)).decays);
    CHECK(!groups.of(named("h.0.mlp.c_fc.bias", 1)).decays);
    CHECK(!groups.of(named("ln_f.weight", 1)).decays);
    CHECK(groups.of(named("ln_f.weight", 1)).learning_rate == 1);
}

TEST_CASE("a rule matches by a part of the name and by dimensions, and the last one that speaks wins") {
    ParameterGroups const groups{{
        {.dimensions = 1, .learning_rate = 2.0},
        {.name_contains = "wte", .decays = false},
        {.name_contains = "bias", .decays = true},
        {.name_contains = "ln_f", .learning_rate = 0.5},
    }};
    CHECK(!groups.of(named("wte.weight", 2)).decays);
    CHECK(groups.of(named("wte.weight", 2)).learning_rate == 1);
    CHECK(groups.of(named("c_fc.bias", 1)).decays);
    CHECK(groups.of(named("c_fc.bias", 1)).learning_rate == 2);
    CHECK(groups.of(named("ln_f.bias", 1)).decays);
    CHECK(groups.of(named("ln_f.bias", 1)).learning_rate == 0.5);
    CHECK(groups.of(named("c_fc.weight", 2)).decays);
}

TEST_CASE("applied groups reach the optimizer through the parameters' tables") {
    std::vector<state::Unit> units(2);
    units[0].parameters = {named("wte.weight", 2)};
    units[1].parameters = {named("c_fc.weight", 2), named("c_fc.bias", 1)};
    ParameterGroups{{{.name_contains = "wte", .decays = false}}}.apply(units);
    CHECK(!units[0].parameters[0].decays);
    CHECK(units[1].parameters[0].decays);
    CHECK(!units[1].parameters[1].decays);

    Trained<optim::AdamW> table{{}, {1, 1, 1, 1}, units[0].parameters[0]}, weight{{}, {1, 1, 1, 1}, units[1].parameters[0]};
    table.update({0, 0, 0, 0}, 0.1);
    weight.update({0, 0, 0, 0}, 0.1);
    CHECK(table.values[0] == 1);
    CHECK(weight.values[0] == doctest::Approx(0.99));
}
