#pragma once
// Full weights of sharded units, collected when they are needed or a little before, in a pool of buffers.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lockstep/parallel/pools.hpp"
#include "lockstep/parallel/strategy.hpp"

namespace lockstep::parallel {

/// The root has buffers of its own, and so has each block where there is a slot for all of them. Otherwise blocks share `slots` buffers of
/// the size of the largest: a unit stays until another one needs its place. Where units have two copies of their weights, each is collected
/// by itself, for the phase that reads it.
/// Which unit is collected when is a function of the order of calls alone, so all ranks start the same operations.
template <class Gather, class Compute, class Storage>
class GatheredUnits {
public:
    /// `gathers[copy * units + unit]` collects a copy of a unit in place, in a buffer that holds this rank's part of it. Unit 0 is the
    /// root. `slots` counts blocks with all that a phase reads of them.
    GatheredUnits(std::vector<Gather> gathers, std::span<state::Unit const> units, std::size_t slots)
        : gathers_(std::move(gathers)),
          units_(units),
          layers_(units.size() - 1),
          copies_(units[0].copies()),
          own_places_(has_slot_each(units, slots)) {
        slots_.resize(copies_ + block_buffers(units, slots));
        for (std::size_t s = 0; s < slots_.size(); ++s)
            slots_[s].weights = {s < copies_ || own_places_ ? units[s / copies_].size : largest_block(units), observe::Category::gathered};
    }

    /// Starts to collect a unit and up to `prefetch` of those that come next, then waits until it is whole.
    /// `fill_own_part(unit, copy, buffer)` puts this rank's part into the buffer; copy 1 is the one for input gradients.
    template <class FillOwnPart>
    Weights<Compute> acquire(std::size_t unit, Phase phase, std::size_t prefetch, FillOwnPart const& fill_own_part) {
        for_each_copy({unit, phase}, [&](std::size_t copy) {
            Slot* slot = find({unit, copy});
            if (slot == nullptr) slot = start({unit, copy}, free_slot({unit, copy}, {}), fill_own_part);
            ++slot->users;
            slot->last_use = ++clock_;
        });

        bool const ends = unit == 0 && phase != Phase::forward && previous_.phase == phase && previous_.unit != 0 && previous_.unit != none;
        Schedule const schedule{unit, phase, layers_, ends};
        previous_         = {unit, phase};
        std::size_t ahead = 0;
        for (std::size_t q = 1; ahead < prefetch; ++q) {
            Use const next = schedule.after(q);
            if (next.unit == none) break;
            if (next.unit == unit && !units_[unit].paired) continue;
            ahead += next.unit != 0;  // the root takes no block's place
            bool room = true;
            for_each_copy(next, [&](std::size_t copy) {
                Held const wanted{next.unit, copy};
                if (!room || find(wanted) != nullptr) return;
                Slot* const place = free_slot(wanted, schedule, q);
                room              = place != nullptr;
                if (room) start(wanted, place, fill_own_part);
            });
            if (!room) break;
        }

        std::span<Compute const> whole[2];
        for_each_copy({unit, phase}, [&](std::size_t copy) {
            Slot& slot = *find({unit, copy});
            settle(slot);
            whole[copy] = slot.weights.span().first(units_[unit].size);
        });
        return {whole[0], whole[1]};
    }

    void release(std::size_t unit, Phase phase) noexcept {
        for_each_copy({unit, phase}, [&](std::size_t copy) {
            if (Slot* const slot = find({unit, copy})) --slot->users;
        });
    }

    /// Ends what is on its way.
    void wait() {
        for (Slot& slot : slots_) settle(slot);
    }

    /// Forgets everything: the weights have changed. Nothing may be on its way.
    void invalidate() noexcept {
        for (Slot& slot : slots_) slot.held = {};
    }

private:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    struct Use {
        std::size_t unit  = none;
        Phase       phase = Phase::evaluate;
    };

    /// A copy of a unit's weights.
    struct Held {
        std::size_t unit = none, copy = 0;

        bool operator==(Held const&) const = default;
    };

    struct Slot {
        typename Storage::template Buffer<Compute> weights;
        Held                                       held;
        std::size_t                                users    = 0;
        bool                                       arriving = false;
        std::uint64_t                              last_use = 0;
    };

    /// The order of use: root, blocks 1..L; then in training root, L..1, root, in evaluation the root again.
    struct Schedule {
        std::size_t unit   = none;
        Phase       phase  = Phase::evaluate;
        std::size_t layers = 0;
        bool        ends   = false;  // the root, behind the blocks of its phase

        Use after(std::size_t q) const noexcept {
            if (unit == none) return {};
            if (ends) return {};
            if (phase == Phase::backward) return {unit == 0 ? (q <= layers ? layers + 1 - q : none) : (q < unit ? unit - q : none), phase};
            std::size_t const position = unit + q;
            if (position <= layers) return {position, phase};
            std::size_t const back = position - layers - 1;  // 0 is the root, 1 the last block again
            if (phase != Phase::forward || back > layers) return {};
            return {back == 0 ? 0 : layers + 1 - back, Phase::backward};
        }
    };

    template <class Body>
    void for_each_copy(Use use, Body const& body) const {
        CopiesRead const read = copies_read(units_[use.unit], use.phase);
        if (read.forward) body(std::size_t{0});
        if (read.input_grad) body(std::size_t{1});
    }

    bool reads(Use use, Held held) const noexcept {
        bool found = false;
        if (use.unit != none && use.unit == held.unit) for_each_copy(use, [&](std::size_t copy) { found = found || copy == held.copy; });
        return found;
    }

    Gather& gather_of(Slot const& slot) noexcept { return gathers_[slot.held.copy * units_.size() + slot.held.unit]; }

    Slot* find(Held held) noexcept {
        for (Slot& slot : slots_)
            if (slot.held == held) return &slot;
        return nullptr;
    }

    /// The slot that has been unused for longest and does not hold one of the next `soon` units; without a schedule one is made free.
    Slot* free_slot(Held wanted, Schedule const& schedule, std::size_t soon = 0) {
        if (wanted.unit == 0 || own_places_) return &slots_[wanted.unit * copies_ + wanted.copy];
        Slot* found = nullptr;
        for (std::size_t s = copies_; s < slots_.size(); ++s) {
            Slot& slot   = slots_[s];
            bool  needed = slot.users != 0;
            for (std::size_t q = 1; q < soon; ++q) needed = needed || reads(schedule.after(q), slot.held);
            if (!needed && (found == nullptr || slot.last_use < found->last_use)) found = &slot;
        }
        if (found != nullptr) settle(*found);
        return found;
    }

    template <class FillOwnPart>
    Slot* start(Held wanted, Slot* slot, FillOwnPart const& fill_own_part) {
        require(slot != nullptr, "parallel: no buffer is free for unit ", wanted.unit, ": release what was acquired before");
        slot->held     = wanted;
        slot->arriving = true;
        slot->last_use = ++clock_;
        fill_own_part(wanted.unit, wanted.copy, slot->weights.span());
        gather_of(*slot).start(slot->weights.span());
        return slot;
    }

    void settle(Slot& slot) {
        if (!slot.arriving) return;
        gather_of(slot).wait();
        slot.arriving = false;
    }

    std::vector<Gather>          gathers_;
    std::span<state::Unit const> units_;
    std::size_t                  layers_, copies_;  // of a unit's weights
    bool                         own_places_;       // each unit has one
    std::vector<Slot>            slots_;
    std::uint64_t                clock_ = 0;
    Use                          previous_;  // what was acquired last
};

}  // namespace lockstep::parallel
