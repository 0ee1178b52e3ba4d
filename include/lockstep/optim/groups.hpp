#pragma once
// Parameter groups: which parameters decay, and whose learning rate differs.

#include <optional>
#include <string>
#include <vector>

#include "lockstep/state/unit.hpp"

namespace lockstep::optim {

/// Matches by a part of the name and by the number of dimensions; says something about decay, learning rate or both.
struct GroupRule {
    std::string           name_contains = {};  // empty: any name
    int                   dimensions    = 0;   // 0: any number
    std::optional<bool>   decays        = {};
    std::optional<double> learning_rate = {};  // factor on the schedule's

    bool matches(state::Parameter const& parameter) const noexcept {
        return (dimensions == 0 || dimensions == parameter.dimensions) && parameter.name.find(name_contains) != std::string::npos;
    }
};

/// What the rules come to for one parameter.
struct Group {
    bool   decays        = false;
    double learning_rate = 1;
};

/// Tensors of two or more dimensions decay, at the schedule's learning rate, unless a rule says otherwise; later rules win.
struct ParameterGroups {
    std::vector<GroupRule> rules = {};

    Group of(state::Parameter const& parameter) const noexcept {
        Group group{.decays = parameter.dimensions >= 2};
        for (GroupRule const& rule : rules) {
            if (!rule.matches(parameter)) continue;
            group.decays        = rule.decays.value_or(group.decays);
            group.learning_rate = rule.learning_rate.value_or(group.learning_rate);
        }
        return group;
    }
};

}  // namespace lockstep::optim
