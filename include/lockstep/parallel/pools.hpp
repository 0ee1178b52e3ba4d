#pragma once
// How many buffers the sharding strategies hold: formulas of the options and the model, for the strategies and for whoever plans memory.

#include <algorithm>
#include <cstddef>
#include <span>

#include "lockstep/parallel/strategy.hpp"

namespace lockstep::parallel {

/// Elements of the largest block, 0 where there is none.
inline std::size_t largest_block(std::span<state::Unit const> units) noexcept {
    std::size_t most = 0;
    for (state::Unit const& unit : units.subspan(1)) most = std::max(most, unit.size);
    return most;
}

/// Units gathered ahead of use: none where nothing may travel under compute.
constexpr std::size_t prefetched(Options const& options) noexcept { return options.overlap ? options.prefetch : 0; }

/// Blocks that are gathered at once: the one in use and those ahead of it; those that backward reads first, if they stay; or all.
constexpr std::size_t gathered_blocks(Options const& options, std::size_t blocks) noexcept {
    if (options.reshard == Reshard::never) return blocks;
    std::size_t const kept = options.reshard == Reshard::keep_last ? options.kept : 0;
    return std::min(blocks, std::max(1 + prefetched(options), kept));
}

/// Whether each copy of each block has a buffer of its own, of its size.
inline bool has_slot_each(std::span<state::Unit const> units, std::size_t slots) noexcept { return slots >= units.size() - 1; }

/// Buffers for that many blocks: with all, one for each copy of each; otherwise one for each copy that a phase reads.
inline std::size_t block_buffers(std::span<state::Unit const> units, std::size_t slots) noexcept {
    std::size_t const blocks = units.size() - 1, copies = units.back().copies(), at_once = units.back().backward_computes ? copies : 1;
    return has_slot_each(units, slots) ? blocks * copies : slots * at_once;
}

/// Elements of compute weights in the gathered buffers of `Sharded`: each copy of the root, and the buffers of the blocks.
inline std::size_t gathered_elements(std::span<state::Unit const> units, Options const& options) noexcept {
    std::size_t const slots = gathered_blocks(options, units.size() - 1), copies = units[0].copies();
    if (!has_slot_each(units, slots)) return units[0].size * copies + block_buffers(units, slots) * largest_block(units);
    std::size_t elements = 0;
    for (state::Unit const& unit : units) elements += unit.size * copies;
    return elements;
}

/// Buffers for gradients of whole blocks: all where micro-steps add up locally; otherwise those being reduced, and the one being filled.
constexpr std::size_t gradient_blocks(Options const& options, std::size_t blocks) noexcept {
    bool const local = options.accumulate.value_or(Accumulate::sharded) == Accumulate::local;
    return local ? blocks : std::min(blocks, 1 + std::max<std::size_t>(1, options.in_flight));
}

/// Elements of the full gradients in `Sharded`.
inline std::size_t full_gradient_elements(std::span<state::Unit const> units, Options const& options) noexcept {
    std::size_t const blocks = units.size() - 1, held = gradient_blocks(options, blocks);
    if (held < blocks || options.accumulate.value_or(Accumulate::sharded) == Accumulate::sharded)
        return units[0].size + held * largest_block(units);
    std::size_t elements = 0;
    for (state::Unit const& unit : units) elements += unit.size;
    return elements;
}

}  // namespace lockstep::parallel
