// Compiled as a user's program is: without the scalar kernels.

#include <doctest/doctest.h>

#include <string>
#include <type_traits>

#include "lockstep/kernel/isa.hpp"

namespace isa_test {

using namespace lockstep;
using kernel::Isa;

TEST_CASE("a program without scalar kernels refuses to use them, and keeps what it had") {
    CHECK_FALSE(kernel::available(Isa::scalar));
    Isa const   before = kernel::isa();
    std::string refused;
    try {
        kernel::use(Isa::scalar);
    } catch (Error const& error) {
        refused = error.what();
        CHECK(error.fault() == Fault::input);
    }
    CHECK(refused == "isa: expected kernels that this program holds, found scalar: it must be compiled with LOCKSTEP_SCALAR_KERNELS=1");
    CHECK(kernel::isa() == before);
    CHECK(before != Isa::scalar);
}

TEST_CASE("the best family up to a cap is one that the machine has, and none above the cap") {
    for (Isa most : {Isa::simd, Isa::avx512, Isa::amx}) {
        CHECK(kernel::best_isa(most) <= most);
        CHECK(kernel::available(kernel::best_isa(most)));
    }
    CHECK(kernel::best_isa(Isa::simd) == Isa::simd);
    CHECK(kernel::best_isa() == (kernel::available(Isa::amx) ? Isa::amx : kernel::pairs_pay() ? Isa::avx512 : Isa::simd));
}

TEST_CASE("the choice is the same at every call: no clock decides") {
    bool const pay = kernel::pairs_pay();
    if (!kernel::available(Isa::avx512)) CHECK_FALSE(pay);
    if (kernel::available(Isa::avx512) && kernel::arch::width == 16) CHECK(pay == kernel::arch::is_amd());
    if (kernel::available(Isa::avx512) && kernel::arch::width < 16) CHECK(pay);
}

TEST_CASE("families that the machine has can be chosen, and the tag is that of the family") {
    Isa const before = kernel::isa();
    kernel::use(Isa::simd);
    CHECK(kernel::isa() == Isa::simd);
    CHECK(kernel::with_arch([](auto tag) { return std::is_same_v<decltype(tag), kernel::arch::simd>; }));
    CHECK_FALSE(kernel::uses_tiles());
    for (Isa tiles : {Isa::avx512, Isa::amx}) {
        if (!kernel::available(tiles)) continue;
        kernel::use(tiles);
        CHECK(kernel::uses_tiles());
    }
    kernel::use(before);
}

}  // namespace isa_test
