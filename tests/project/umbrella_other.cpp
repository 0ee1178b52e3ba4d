#include "lockstep/lockstep.hpp"

std::string_view version_of_the_other_unit();
void const*      ledger_of_the_other_unit();

std::string_view version_of_the_other_unit() { return LOCKSTEP_VERSION; }
void const*      ledger_of_the_other_unit() { return &lockstep::observe::ledger(); }
