// The whole library in two translation units of one program: everything in it is inline, and nothing is defined twice.

#include "lockstep/lockstep.hpp"

#include <doctest/doctest.h>

std::string_view version_of_the_other_unit();
void const*      ledger_of_the_other_unit();

TEST_CASE("two translation units that include everything link, and share one ledger") {
    CHECK(version_of_the_other_unit() == LOCKSTEP_VERSION);
    CHECK(ledger_of_the_other_unit() == &lockstep::observe::ledger());
}
