#pragma once
// The memory ledger over time, as instants of the timeline.

#include <array>
#include <concepts>

#include "lockstep/observe/ledger.hpp"
#include "lockstep/observe/timeline.hpp"

namespace lockstep::observe {

static_assert(arena_in_use == categories);

/// Records what has changed since the last time, so that a step that allocates nothing records next to nothing.
class MemoryCurve {
public:
    /// `in_use`: bytes of the arenas of activations that hold something.
    void sample(std::size_t in_use) {
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
        if constexpr (requires { workspace.in_use(); })
            sample(static_cast<std::size_t>(workspace.in_use()));
        else
            sample(std::size_t{0});
    }

private:
    static std::size_t held(std::size_t category) noexcept {
        return ledger()[static_cast<Category>(category)].now.load(std::memory_order_relaxed);
    }

    std::array<std::size_t, categories + 1> last_ = all_unknown();

    static constexpr std::array<std::size_t, categories + 1> all_unknown() noexcept {
        std::array<std::size_t, categories + 1> unknown{};
        unknown.fill(static_cast<std::size_t>(-1));
        return unknown;
    }
};

}  // namespace lockstep::observe
