#pragma once
// A test of the kernels on tiles runs once with each kind of tiles: in registers of AVX-512, and on the tile unit or an emulation of it.

#include <doctest/doctest.h>

#include <optional>

#include "lockstep/kernel/isa.hpp"
#include "tile_emulator.hpp"

namespace test {

/// Declared first in a test case: uses one kind of tiles while it lives; false where the machine has not even the vectors around them. The
/// case is run again for the other kind.
class TileUnit {
public:
    TileUnit() {
        using lockstep::kernel::Isa;
        auto unit = Isa::simd;
        SUBCASE("in registers of AVX-512") { unit = Isa::avx512; }
        SUBCASE("on the tile unit") { unit = Isa::amx; }
        there_ = lockstep::kernel::available(Isa::avx512);
        if (!there_) {
            MESSAGE("skipped: this machine does not multiply bfloat16 in AVX-512 registers");
        } else if (lockstep::kernel::available(unit)) {
            lockstep::kernel::use(unit);
        } else {
            emulator_.emplace();
            use_unseen(unit);
        }
    }
    ~TileUnit() { use_unseen(before_); }
    TileUnit(TileUnit const&)            = delete;
    TileUnit& operator=(TileUnit const&) = delete;

    explicit operator bool() const { return there_; }
    bool     emulated() const { return emulator_.has_value(); }

private:
    /// As kernel::use, but whatever the machine has.
    static void use_unseen(lockstep::kernel::Isa isa) {
        lockstep::kernel::detail::chosen_isa().store(isa);
        lockstep::kernel::detail::replace_tile_unit(isa);
    }

    lockstep::kernel::Isa       before_ = lockstep::kernel::isa();
    std::optional<TileEmulator> emulator_;
    bool                        there_ = false;
};

}  // namespace test
