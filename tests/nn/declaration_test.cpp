#include "lockstep/nn/declaration.hpp"

#include <doctest/doctest.h>

#include <set>

namespace declaration_test {

using namespace lockstep;
using nn::Declaration;

TEST_CASE("parameters lie one after another, matrices in the layout, vectors in the identity") {
    state::Unit unit{.name = "unit", .parameters = {}};
    Declaration declaration(unit, {4, 3, state::TileOrder::columns});
    auto const  matrix = declaration.matrix("w", 5, 7, {0, 0.02f});
    auto const  vector = declaration.vector("b", 5, {1, 0});
    auto const  other  = declaration.matrix("v", 2, 2, {});
    REQUIRE(unit.parameters.size() == 3);
    CHECK(unit.parameters[matrix].size() == 8 * 9);  // padded to panels of 4 rows and tiles of 3 columns
    CHECK(unit.parameters[matrix].elements() == 35);
    CHECK(unit.parameters[matrix].decays);
    CHECK(unit.parameters[vector].offset == 72);
    CHECK(unit.parameters[vector].size() == 5);
    CHECK_FALSE(unit.parameters[vector].decays);
    CHECK(unit.parameters[other].offset == 77);
    CHECK(unit.size == 77 + 4 * 3);
}

TEST_CASE("a shared parameter counts its uses, another of the same name is refused") {
    state::Unit unit{.name = "unit", .parameters = {}};
    Declaration declaration(unit);
    auto const  index = declaration.matrix("w", 2, 2, {});
    CHECK(unit.parameters[index].uses == 1);
    CHECK(declaration.share(index) == index);
    CHECK(unit.parameters[index].uses == 2);
    CHECK(unit.parameters.size() == 1);
    CHECK_THROWS_WITH_AS(declaration.vector("w", 2, {}), "nn: the unit unit declares the parameter w twice", Error);
}

TEST_CASE("the places that draw random numbers are distinct, and as many as the keys can tell apart") {
    state::Unit             unit{.name = "unit", .parameters = {}};
    Declaration             declaration(unit);
    std::set<std::uint32_t> sites, purposes;
    for (int i = 0; i < 256; ++i) {
        sites.insert(declaration.random_site());
        declaration.vector("p" + std::to_string(i), 1, {});
    }
    for (state::Parameter const& parameter : unit.parameters) purposes.insert(parameter.purpose);
    CHECK(sites.size() == 256);
    CHECK(*sites.rbegin() == 255);
    CHECK(purposes.size() == 256);
    CHECK(*purposes.rbegin() == 255);
    CHECK_THROWS_AS(declaration.random_site(), Error);
    CHECK_THROWS_AS(declaration.vector("p", 1, {}), Error);
}

}  // namespace declaration_test
