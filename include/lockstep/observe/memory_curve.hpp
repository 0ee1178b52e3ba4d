#pragma once
// The memory ledger over time, as instants of the timeline.

#include <algorithm>
#include <array>
#include <concepts>
#include <utility>

#include "lockstep/observe/ledger.hpp"
#include "lockstep/observe/timeline.hpp"

namespace lockstep::observe {

static_assert(arena_in_use == categories);

/// Bytes of the arenas of activations: all, and what held something, at most.
struct ArenaUse {
    std::size_t held = 0, most = 0;
};

/// Records what has changed since the last time, so that a step that allocates nothing records next to nothing.
class MemoryCurve {
public:
    /// `in_use`: bytes of the arenas of activations that hold something.
    void sample(std::size_t in_use) {
        use_.most    = std::max(use_.most, in_use);
        bool changed = in_use != last_[arena_in_use];
        for (std::size_t c = 0; c < categories; ++c) changed = changed || held(c) != last_[c];
        if (!changed) return;
        Nanoseconds const at = now();
        for (std::size_t c = 0; c <= categories; ++c) {
            std::size_t const bytes = c == arena_in_use ? in_use : held(c);
            if (bytes == last_[c]) continue;
            last_[c] = bytes;
            record({Event::memory, 0, static_cast<std::uint32_t>(c), at, at, bytes});
        }
    }

    /// What it holds is told by a workspace, where it knows.
    template <class Workspace>
        requires(!std::convertible_to<Workspace, std::size_t>)
    void sample(Workspace const& workspace) {
        if constexpr (requires { workspace.in_use(); }) {
            use_.held = workspace.held();
            sample(static_cast<std::size_t>(workspace.in_use()));
        } else {
            sample(std::size_t{0});
        }
    }

    /// Since this was last asked; nothing of a workspace that holds no more than it needs.
    ArenaUse take_use() noexcept { return {use_.held, std::exchange(use_.most, 0)}; }

private:
    static std::size_t held(std::size_t category) noexcept {
        return ledger()[static_cast<Category>(category)].now.load(std::memory_order_relaxed);
    }

    std::array<std::size_t, categories + 1> last_ = all_unknown();
    ArenaUse                                use_;

    static constexpr std::array<std::size_t, categories + 1> all_unknown() noexcept {
        std::array<std::size_t, categories + 1> unknown{};
        unknown.fill(static_cast<std::size_t>(-1));
        return unknown;
    }
};

}  // namespace lockstep::observe
