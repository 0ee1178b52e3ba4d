#pragma once
// Which kernels this process uses: chosen once, from what was compiled in and what the machine has.

#include <atomic>
#include <string_view>

#include "lockstep/core/error.hpp"
#include "lockstep/kernel/arch/cpu_features.hpp"
#include "lockstep/kernel/arch/tags.hpp"

namespace lockstep::kernel {

/// The kernel families that this version offers, weakest first.
enum class Isa { scalar, simd, amx };

constexpr std::string_view name(Isa isa) noexcept { return isa == Isa::scalar ? "scalar" : isa == Isa::simd ? "simd" : "amx"; }

/// True where this program holds the family and the machine can run it as compiled. The `simd` family uses the compile-time instruction
/// set.
inline bool available(Isa isa) noexcept {
    if (isa == Isa::scalar) return LOCKSTEP_SCALAR_KERNELS != 0;
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

namespace detail {
inline std::atomic<Isa>& chosen_isa() noexcept {
    static std::atomic<Isa> isa{available(Isa::amx) ? Isa::amx : available(Isa::simd) || !available(Isa::scalar) ? Isa::simd : Isa::scalar};
    return isa;
}
}  // namespace detail

/// The family in use.
inline Isa isa() noexcept { return detail::chosen_isa().load(std::memory_order_relaxed); }

/// Caps the family in use; asking for more than the machine or the program has is an input error that begins with `who`.
inline void use(Isa wanted, std::string_view who = "isa") {
    if (wanted == Isa::scalar && !available(wanted))
        input_error(who, ": expected kernels that this program holds, found scalar: it must be compiled with LOCKSTEP_SCALAR_KERNELS=1");
    if (!available(wanted))
        input_error(who, ": expected kernels that this machine can run and this program was compiled with, found ", name(wanted));
    detail::chosen_isa().store(wanted, std::memory_order_relaxed);
}

/// Calls f with the tag of the family in use. Kernels that have an `amx` version ask for it themselves: most have none.
template <class F>
decltype(auto) with_arch(F&& f) {
#if LOCKSTEP_SCALAR_KERNELS
    if (isa() == Isa::scalar) return f(arch::scalar{});
#endif
    return f(arch::simd{});
}

}  // namespace lockstep::kernel
