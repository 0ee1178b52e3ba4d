#pragma once
// Cutting a dimension into equal parts. Each element of a product is the same sum however that is.

#include <algorithm>
#include <cstddef>

#include "lockstep/kernel/arch/avx512_tile.hpp"
#include "lockstep/runtime/parallel_for.hpp"

#if LOCKSTEP_TILES

namespace lockstep::kernel::arch {

struct PanelRange {
    std::size_t first = 0, last = 0;
};

/// Equal parts of at most `most` of `panels`; the last ones may be shorter or empty.
struct PanelParts {
    std::size_t panels, count, size;

    PanelParts(std::size_t all, std::size_t most) noexcept
        : panels(all), count(std::max<std::size_t>(1, (all + most - 1) / most)), size((all + count - 1) / count) {}

    PanelRange operator[](std::size_t part) const noexcept { return {std::min(panels, part * size), std::min(panels, (part + 1) * size)}; }
};

/// What a block of 32 x 32 sums over some steps counts as, in elementary operations (see runtime::parallel_for): a step takes about 25 ns
/// on the tile unit, 300 ns in vectors, and what becomes of the sums, 4 KB to be stored and 32 rows for a sink, as long as four steps on
/// tiles.
inline std::size_t block_cost(std::size_t steps) noexcept { return steps * (without_tile_unit() ? 1024 : 128) + 4 * 128; }

/// At most `most` panels of `panels` a part, or fewer, so that there are tasks for several threads as long as each is worth one.
/// `cost` is that of the whole work, `others` the parts of the other dimension.
inline std::size_t cut_for_tasks(std::size_t panels, std::size_t most, std::size_t others, std::size_t cost) noexcept {
    constexpr std::size_t good = 4096 * 128, least = 256 * 128;  // cost of a task that loses nothing, of one worth a thread
    std::size_t const     enough = std::max<std::size_t>(8, 2 * runtime::threads_here());
    std::size_t const     wanted = std::clamp<std::size_t>(cost / good, cost >= 2 * least ? 2 : 1, enough);
    std::size_t const     parts  = (wanted + others - 1) / others;
    return parts <= 1 ? most : std::max<std::size_t>(1, std::min(most, (panels + parts - 1) / parts));
}

/// Panels of 32 that cover `extent`.
constexpr std::size_t panels_of(std::size_t extent) noexcept { return (extent + 31) / 32; }

}  // namespace lockstep::kernel::arch

#endif
