#pragma once
// How functions are compiled for machines with AVX-512 and bfloat16 beside it, whatever the rest of the program is compiled for.

#include "lockstep/kernel/arch/tags.hpp"

#if LOCKSTEP_TILES

/// Lambdas do not inherit the attribute: they may only call functions that are not inlined.
#define LOCKSTEP_AVX512_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx512vbmi,avx2,fma,bmi2")))
#define LOCKSTEP_AVX512_LEAF   __attribute__((noinline)) LOCKSTEP_AVX512_TARGET              // called from anywhere
#define LOCKSTEP_AVX512_INLINE __attribute__((always_inline)) inline LOCKSTEP_AVX512_TARGET  // called from a leaf

#endif
