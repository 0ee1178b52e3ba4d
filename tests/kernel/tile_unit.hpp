#pragma once
// A test of the kernels on tiles runs once with each kind of tiles that this machine has.

#include <doctest/doctest.h>

#include "lockstep/kernel/isa.hpp"

namespace test {

/// Declared first in a test case: uses one kind of tiles while it lives; false where the machine has no such. The case is run again for the
/// other kind.
class TileUnit {
public:
    TileUnit() {
        auto unit = lockstep::kernel::Isa::simd;
        SUBCASE("in registers of AVX-512") { unit = lockstep::kernel::Isa::avx512; }
        SUBCASE("on the tile unit") { unit = lockstep::kernel::Isa::amx; }
        there_ = lockstep::kernel::available(unit);
        if (there_)
            lockstep::kernel::use(unit);
        else
            MESSAGE("skipped: bfloat16 " << (unit == lockstep::kernel::Isa::amx ? "on the tile unit" : "in registers of AVX-512")
                                         << " is not to be had on this machine or from its operating system");
    }
    ~TileUnit() { lockstep::kernel::use(before_); }
    TileUnit(TileUnit const&)            = delete;
    TileUnit& operator=(TileUnit const&) = delete;

    explicit operator bool() const { return there_; }

private:
    lockstep::kernel::Isa before_ = lockstep::kernel::isa();
    bool                  there_  = false;
};

}  // namespace test
