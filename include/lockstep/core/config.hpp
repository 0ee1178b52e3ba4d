#pragma once
// What every other header may rely on: version, names of fixed sizes.

#include <cstddef>

#define LOCKSTEP_VERSION_MAJOR 0
#define LOCKSTEP_VERSION_MINOR 1
#define LOCKSTEP_VERSION_PATCH 0
#define LOCKSTEP_VERSION       "0.1.0"

namespace lockstep {

/// Alignment of every buffer, in bytes: a cache line, and the widest vector register there is.
inline constexpr std::size_t alignment = 64;

/// A label that takes no part in the loss. Loaders map the user's ignore label to this one.
inline constexpr int ignored_label = -1;

}  // namespace lockstep
