#pragma once
// Parameter groups: which parameters decay, and whose learning rate differs.

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/assertion.hpp"
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

    /// A rule that no parameter matches was meant for one with another name.
    void check(std::span<state::Unit const> units) const {
        for (GroupRule const& rule : rules)
            require(std::ranges::any_of(units,
                                        [&](state::Unit const& unit) {
                                            return std::ranges::any_of(unit.parameters, [&](state::Parameter const& parameter) {
                                                return rule.matches(parameter);
                                            });
                                        }),
                    "parameter groups: a rule for names that contain \"", rule.name_contains, "\"",
                    rule.dimensions == 0 ? std::string() : sentence(" and ", rule.dimensions, " dimensions"), " matches no parameter");
    }

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
