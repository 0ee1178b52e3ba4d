#pragma once
// Architecture tags. A tag inherits from the one it falls back to, so overload resolution picks the best kernel there is.

/// 1 where the compiler can make code for AVX-512 and the tile unit, whatever the machine has.
#if defined(__x86_64__) && defined(__GNUC__)
#define LOCKSTEP_TILES 1
#else
#define LOCKSTEP_TILES 0
#endif

/// 1 where the program shall hold the scalar kernels too, the reference of tests and of `--isa scalar`: a fifth of its compile time.
/// The same in the whole program.
#if !defined(LOCKSTEP_SCALAR_KERNELS)
#define LOCKSTEP_SCALAR_KERNELS 0
#endif

namespace lockstep::kernel::arch {

struct scalar {};         // plain loops: the reference of every test
struct simd : scalar {};  // xsimd, the widest registers the program was compiled for
struct tiles : simd {};   // bf16 in blocks of 32 x 32, by the tile unit (AMX) or in registers of AVX-512

}  // namespace lockstep::kernel::arch
