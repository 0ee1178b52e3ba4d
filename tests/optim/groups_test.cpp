#include "lockstep/optim/groups.hpp"

#include <doctest/doctest.h>

#include "trained.hpp"

namespace groups_test {

using namespace lockstep;
using optim::ParameterGroups;

state::Parameter named(std::string name, int dimensions) {
    state::Parameter parameter = a_parameter(4, dimensions);
    parameter.name             = std::move(name);
    parameter.decays           = false;
    return parameter;
}

TEST_CASE("TRAPS 19: without rules, tensors of two or more dimensions decay and others do not") {
    ParameterGroups const groups;
    CHECK(groups.of(named("h.0.mlp.c_fc.weight", 2)).decays);
    CHECK(!groups.of(named("h.0.mlp.c_fc.bias", 1)).decays);
    CHECK(!groups.of(named("ln_f.weight", 1)).decays);
    CHECK(groups.of(named("ln_f.weight", 1)).learning_rate == 1);
}

TEST_CASE("a rule that matches no parameter is an error that names it") {
    std::vector<state::Unit> units(1);
    units[0].parameters = {named("wte", 2), named("ln_f.bias", 1)};
    CHECK_NOTHROW(ParameterGroups{{{.name_contains = "wte"}, {.dimensions = 1}}}.check(units));
    CHECK_THROWS_WITH_AS((ParameterGroups{{{.name_contains = "wte"}, {.name_contains = "tokn", .dimensions = 2}}}.check(units)),
                         "parameter groups: a rule for names that contain \"tokn\" and 2 dimensions matches no parameter", Error);
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

}  // namespace groups_test
