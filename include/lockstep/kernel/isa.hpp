#pragma once
// Which kernels this process uses: chosen once, from what was compiled in and what the machine has.

#include <atomic>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/kernel/arch/avx512_tile.hpp"
#include "lockstep/kernel/arch/cpu_features.hpp"
#include "lockstep/kernel/arch/required_cpu.hpp"
#include "lockstep/kernel/arch/simd_batch.hpp"
#include "lockstep/kernel/arch/tags.hpp"

namespace lockstep::kernel {

/// The kernel families that this version offers, weakest first. From `avx512` on, products of bfloat16 are computed in tiles: in registers
/// of AVX-512 by VDPBF16PS, or by the tile unit. Everything else is `simd`, as wide as the program was compiled for.
enum class Isa { scalar, simd, avx512, amx };

constexpr std::string_view name(Isa isa) noexcept {
    return isa == Isa::scalar ? "scalar" : isa == Isa::simd ? "simd" : isa == Isa::avx512 ? "avx512" : "amx";
}

/// True where this program holds the family and the machine can run it as compiled. The `simd` family uses the compile-time instruction
/// set.
inline bool available(Isa isa) noexcept {
    if (isa == Isa::scalar) return LOCKSTEP_SCALAR_KERNELS != 0;
    if (isa == Isa::avx512 && !arch::has_avx512_bfloat16()) return false;
    if (isa == Isa::amx && !arch::has_amx()) return false;
#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
    bool runs = true;
#if defined(__AVX512F__)
    runs = runs && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
#endif
#if defined(__AVX2__)
    runs = runs && __builtin_cpu_supports("avx2");
#endif
#if defined(__FMA__)
    runs = runs && __builtin_cpu_supports("fma");
#endif
    return runs;
#else
    return true;
#endif
}

/// True where this program multiplies pairs of bfloat16 faster than it would multiply fp32. VDPBF16PS does twice the work of FMA with
/// 512 bits on AMD's cores and half of it on Intel's, as much as FMA with 256 bits, whose kernels reach less of it. The maker and the width
/// decide, not a probe: bits depend on the choice, which must not depend on what else the machine does at that moment.
inline bool pairs_pay() noexcept { return available(Isa::avx512) && (arch::is_amd() || arch::width < 16); }

/// The best family up to `most` that this program holds and this machine runs.
inline Isa best_isa(Isa most = Isa::amx) {
    if (most >= Isa::amx && available(Isa::amx)) return Isa::amx;
    if (most >= Isa::avx512 && pairs_pay()) return Isa::avx512;
    return available(Isa::simd) || !available(Isa::scalar) ? Isa::simd : Isa::scalar;
}

namespace detail {
inline void replace_tile_unit([[maybe_unused]] Isa isa) noexcept {
#if LOCKSTEP_TILES
    arch::detail::tile_unit_replaced.store(isa == Isa::avx512, std::memory_order_relaxed);
#endif
}

inline std::atomic<Isa>& chosen_isa() noexcept {
    static std::atomic<Isa> isa{[] {
        Isa const best = best_isa();
        replace_tile_unit(best);
        return best;
    }()};
    return isa;
}
}  // namespace detail

/// The family in use.
inline Isa isa() noexcept { return detail::chosen_isa().load(std::memory_order_relaxed); }

/// True where products of bfloat16 are computed in tiles, of the tile unit or in registers of AVX-512.
inline bool uses_tiles() noexcept { return isa() >= Isa::avx512; }

/// Uses this family, see `best_isa` for a cap. Not while kernels run. What the machine or the program does not have is an input error that
/// begins with `who`.
inline void use(Isa wanted, std::string_view who = "isa") {
    if (wanted == Isa::scalar && !available(wanted))
        input_error(who, ": expected kernels that this program holds, found scalar: it must be compiled with LOCKSTEP_SCALAR_KERNELS=1");
    if (!available(wanted))
        input_error(who, ": expected kernels that this machine can run and this program was compiled with, found ", name(wanted));
    detail::chosen_isa().store(wanted, std::memory_order_relaxed);
    detail::replace_tile_unit(wanted);
}

/// Calls f with the tag of the family in use. Kernels that have a version in tiles ask for it themselves: most have none.
template <class F>
decltype(auto) with_arch(F&& f) {
#if LOCKSTEP_SCALAR_KERNELS
    if (isa() == Isa::scalar) return f(arch::scalar{});
#endif
    return f(arch::simd{});
}

}  // namespace lockstep::kernel
