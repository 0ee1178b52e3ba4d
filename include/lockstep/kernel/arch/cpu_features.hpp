#pragma once
// What the processor and the operating system let this process use, asked once.

#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdint>

namespace lockstep::kernel::arch {

struct CpuFeatures {
    bool avx2_fma = false;  // with F16C
    bool avx512   = false;  // F, BW, VL, DQ
    bool bfloat16 = false;  // AVX-512 with BF16 and VBMI beside it
    bool amx      = false;  // all of that, tiles of bfloat16 and the permission to use them
    bool amd      = false;  // the maker
};

namespace detail {

#if defined(__x86_64__) && defined(__GNUC__)

struct CpuId {
    std::uint32_t a = 0, b = 0, c = 0, d = 0;
};
inline CpuId cpu_id(std::uint32_t leaf, std::uint32_t subleaf) noexcept {
    CpuId id;
    asm volatile("cpuid" : "=a"(id.a), "=b"(id.b), "=c"(id.c), "=d"(id.d) : "a"(leaf), "c"(subleaf));
    return id;
}

/// The register states that the operating system saves.
inline std::uint64_t saved_states() noexcept {
    std::uint32_t low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return std::uint64_t{high} << 32 | low;
}

/// Asks Linux for the tile registers, on behalf of the whole process: threads started later have them too. A refusal (an alternate signal
/// stack that is too small, a kernel before 5.16) means no tiles.
inline bool request_tiles() noexcept {
#if defined(__linux__)
    constexpr long arch_req_xcomp_perm = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, arch_req_xcomp_perm, tile_data) == 0;
#else
    return false;
#endif
}

inline CpuFeatures ask_cpu() noexcept {
    CpuFeatures found;
    auto const  has  = [](std::uint32_t word, auto... bits) { return ((word >> bits & 1u) && ...); };
    auto const  one  = cpu_id(1, 0);
    auto const  zero = cpu_id(0, 0);
    found.amd        = zero.b == 0x68747541 && zero.d == 0x69746E65 && zero.c == 0x444D4163;  // "AuthenticAMD"
    if (zero.a < 7 || !has(one.c, 27)) return found;                                          // OSXSAVE
    auto const seven = cpu_id(7, 0);
    auto const more  = seven.a >= 1 ? cpu_id(7, 1) : CpuId{};
    auto const saved = saved_states();
    auto const saves = [&](std::uint64_t mask) { return (saved & mask) == mask; };
    found.avx2_fma   = has(one.c, 12, 28, 29) && has(seven.b, 5) && saves(0x6);                      // FMA, AVX, F16C; AVX2
    found.avx512     = found.avx2_fma && has(seven.b, 16, 17, 30, 31) && saves(0xE6);                // F, DQ, BW, VL
    found.bfloat16   = found.avx512 && has(seven.b, 8) && has(seven.c, 1) && has(more.a, 5);         // BMI2, VBMI, AVX-512 BF16
    found.amx        = found.bfloat16 && has(seven.d, 22, 24) && saves(0x600E6) && request_tiles();  // AMX-BF16, AMX-TILE
    return found;
}

#else

inline CpuFeatures ask_cpu() noexcept { return {}; }

#endif

}  // namespace detail

/// Asked at the first call. Call it early: before a small alternate signal stack is installed, which makes Linux refuse tiles.
inline CpuFeatures const& cpu_features() noexcept {
    static CpuFeatures const features = detail::ask_cpu();
    return features;
}

inline bool has_avx2_fma() noexcept { return cpu_features().avx2_fma; }
inline bool has_avx512() noexcept { return cpu_features().avx512; }
inline bool has_avx512_bfloat16() noexcept { return cpu_features().bfloat16; }
inline bool has_amx() noexcept { return cpu_features().amx; }
inline bool is_amd() noexcept { return cpu_features().amd; }

}  // namespace lockstep::kernel::arch
