#pragma once
// Which update of the parameters something belongs to: version t is what t optimizer steps made of the initial ones.

#include <cstdint>

namespace lockstep::state {

using Version = std::uint64_t;

}  // namespace lockstep::state
