#pragma once
// Full weights of sharded units, collected when they are needed or a little before, in a pool of buffers.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lockstep/parallel/strategy.hpp"

namespace lockstep::parallel {

/// The root has a buffer of its own. Blocks share `slots` buffers: a unit stays until another one needs its place.
/// Which unit is collected when is a function of the order of calls alone, so all ranks start the same operations.
template <class Gather, class Compute, class Storage>
class GatheredUnits {
public:
    /// `gathers[unit]` collects a unit in place, in a buffer that holds this rank's part of it. Unit 0 is the root.
    GatheredUnits(std::vector<Gather> gathers, std::span<state::Unit const> units, std::size_t slots)
        : gathers_(std::move(gathers)), layers_(units.size() - 1) {
        std::size_t most = 0;
        for (state::Unit const& unit : units.subspan(1)) most = std::max(most, unit.size);
        slots_.resize(1 + std::min(slots, layers_));
        for (std::size_t s = 0; s < slots_.size(); ++s) slots_[s].weights = {s == 0 ? units[0].size : most, observe::Category::gathered};
    }

    /// Waits until a unit is whole, and starts to collect up to `prefetch` of those that come next.
    template <class FillOwnPart>
    std::span<Compute const> acquire(std::size_t unit, Phase phase, std::size_t prefetch, FillOwnPart const& fill_own_part) {
        Slot* slot = find(unit);
        if (slot == nullptr) slot = start(unit, free_slot(unit, {}), fill_own_part);
        ++slot->users;
        slot->last_use = ++clock_;
        settle(*slot);

        bool const     ends = unit == 0 && previous_.phase == phase && previous_.unit != 0 && previous_.unit != none;
        Schedule const schedule{unit, phase, layers_, ends};
        previous_         = {unit, phase};
        std::size_t ahead = 0;
        for (std::size_t q = 1; ahead < prefetch; ++q) {
            std::size_t const next = schedule.after(q);
            if (next == none) break;
            if (next == unit) continue;
            ++ahead;
            if (find(next) != nullptr) continue;
            Slot* const place = free_slot(next, schedule, q);
            if (place == nullptr) break;
            start(next, place, fill_own_part);
        }
        return slot->weights.span();
    }

    void release(std::size_t unit) noexcept {
        if (Slot* const slot = find(unit)) --slot->users;
    }

    void advance() {
        for (Slot& slot : slots_)
            if (slot.arriving) gathers_[slot.unit].advance();
    }

    /// Ends what is on its way.
    void wait() {
        for (Slot& slot : slots_) settle(slot);
    }

    /// Forgets everything: the weights have changed. Nothing may be on its way.
    void invalidate() noexcept {
        for (Slot& slot : slots_) slot.unit = none;
    }

private:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    struct Slot {
        typename Storage::template Buffer<Compute> weights;
        std::size_t                                unit     = none;
        std::size_t                                users    = 0;
        bool                                       arriving = false;
        std::uint64_t                              last_use = 0;
    };

    /// The order of use: root, blocks 1..L, root; then in training root, L..1, root.
    struct Schedule {
        std::size_t unit   = none;
        Phase       phase  = Phase::evaluate;
        std::size_t layers = 0;
        bool        ends   = false;  // the root, behind the blocks of its phase

        std::size_t after(std::size_t q) const noexcept {
            if (unit == none) return none;
            if (ends) return phase == Phase::forward && q <= layers ? layers + 1 - q : none;
            if (phase == Phase::backward) return unit == 0 ? (q <= layers ? layers + 1 - q : none) : (q < unit ? unit - q : none);
            std::size_t const position = unit + q;
            if (position <= layers) return position;
            std::size_t const back = position - layers;  // 1 is the last block again
            return phase == Phase::forward && back <= layers ? layers + 1 - back : none;
        }
    };

    Slot* find(std::size_t unit) noexcept {
        for (Slot& slot : slots_)
            if (slot.unit == unit) return &slot;
        return nullptr;
    }

    /// The slot that has been unused for longest and does not hold one of the next `soon` units; without a schedule one is made free.
    Slot* free_slot(std::size_t unit, Schedule const& schedule, std::size_t soon = 0) {
        if (unit == 0) return &slots_[0];
        Slot* found = nullptr;
        for (std::size_t s = 1; s < slots_.size(); ++s) {
            Slot& slot   = slots_[s];
            bool  needed = slot.users != 0;
            for (std::size_t q = 1; q < soon; ++q) needed = needed || (slot.unit != none && schedule.after(q) == slot.unit);
            if (!needed && (found == nullptr || slot.last_use < found->last_use)) found = &slot;
        }
        if (found != nullptr) settle(*found);
        return found;
    }

    template <class FillOwnPart>
    Slot* start(std::size_t unit, Slot* slot, FillOwnPart const& fill_own_part) {
        require(slot != nullptr, "parallel: no buffer is free for unit ", unit, ": release what was acquired before");
        slot->unit     = unit;
        slot->arriving = true;
        slot->last_use = ++clock_;
        fill_own_part(unit, slot->weights.span());
        gathers_[unit].start(slot->weights.span());
        return slot;
    }

    void settle(Slot& slot) {
        if (!slot.arriving) return;
        gathers_[slot.unit].wait();
        slot.arriving = false;
    }

    std::vector<Gather> gathers_;
    std::size_t         layers_;
    std::vector<Slot>   slots_;
    std::uint64_t       clock_ = 0;
    struct {
        std::size_t unit  = none;
        Phase       phase = Phase::evaluate;
    } previous_;  // what was acquired last
};

}  // namespace lockstep::parallel
