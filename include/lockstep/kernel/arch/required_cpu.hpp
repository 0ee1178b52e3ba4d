#pragma once
// A program that was compiled for more than the machine has says so in one line before main, and ends with exit code 2: it would die of an
// illegal instruction somewhere later. Only what the compiler may use everywhere counts (-march, -m...), not what kernels ask for
// themselves.

#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)

#include <unistd.h>

namespace lockstep::kernel::arch {

/// An instruction set, and the bit of CPUID that tells of it.
struct RequiredFeature {
    char const* name;
    unsigned    leaf, subleaf, word, bit;
};

inline constexpr RequiredFeature required_features[] = {
    {"SSE2", 1, 0, 3, 26},
#if defined(__SSE3__)
    {"SSE3", 1, 0, 2, 0},
#endif
#if defined(__SSSE3__)
    {"SSSE3", 1, 0, 2, 9},
#endif
#if defined(__SSE4_1__)
    {"SSE4.1", 1, 0, 2, 19},
#endif
#if defined(__SSE4_2__)
    {"SSE4.2", 1, 0, 2, 20},
#endif
#if defined(__MOVBE__)
    {"MOVBE", 1, 0, 2, 22},
#endif
#if defined(__POPCNT__)
    {"POPCNT", 1, 0, 2, 23},
#endif
#if defined(__AVX__)
    {"AVX", 1, 0, 2, 28},
#endif
#if defined(__F16C__)
    {"F16C", 1, 0, 2, 29},
#endif
#if defined(__FMA__)
    {"FMA", 1, 0, 2, 12},
#endif
#if defined(__BMI__)
    {"BMI", 7, 0, 1, 3},
#endif
#if defined(__AVX2__)
    {"AVX2", 7, 0, 1, 5},
#endif
#if defined(__BMI2__)
    {"BMI2", 7, 0, 1, 8},
#endif
#if defined(__AVX512F__)
    {"AVX-512F", 7, 0, 1, 16},
#endif
#if defined(__AVX512DQ__)
    {"AVX-512DQ", 7, 0, 1, 17},
#endif
#if defined(__AVX512IFMA__)
    {"AVX-512IFMA", 7, 0, 1, 21},
#endif
#if defined(__AVX512ER__)
    {"AVX-512ER", 7, 0, 1, 27},
#endif
#if defined(__AVX512CD__)
    {"AVX-512CD", 7, 0, 1, 28},
#endif
#if defined(__AVX512BW__)
    {"AVX-512BW", 7, 0, 1, 30},
#endif
#if defined(__AVX512VL__)
    {"AVX-512VL", 7, 0, 1, 31},
#endif
#if defined(__AVX512VBMI__)
    {"AVX-512VBMI", 7, 0, 2, 1},
#endif
#if defined(__AVX512VBMI2__)
    {"AVX-512VBMI2", 7, 0, 2, 6},
#endif
#if defined(__GFNI__)
    {"GFNI", 7, 0, 2, 8},
#endif
#if defined(__VAES__)
    {"VAES", 7, 0, 2, 9},
#endif
#if defined(__VPCLMULQDQ__)
    {"VPCLMULQDQ", 7, 0, 2, 10},
#endif
#if defined(__AVX512VNNI__)
    {"AVX-512VNNI", 7, 0, 2, 11},
#endif
#if defined(__AVX512BITALG__)
    {"AVX-512BITALG", 7, 0, 2, 12},
#endif
#if defined(__AVX512VPOPCNTDQ__)
    {"AVX-512VPOPCNTDQ", 7, 0, 2, 14},
#endif
#if defined(__AVX512FP16__)
    {"AVX-512FP16", 7, 0, 3, 23},
#endif
#if defined(__AVXVNNI__)
    {"AVX-VNNI", 7, 1, 0, 4},
#endif
#if defined(__AVX512BF16__)
    {"AVX-512BF16", 7, 1, 0, 5},
#endif
#if defined(__LZCNT__)
    {"LZCNT", 0x80000001, 0, 2, 5},
#endif
};

/// Compiled without a vector register, and it calls nothing that is compiled here: neither may need what it looks for.
__attribute__((constructor(101), target("general-regs-only"))) inline void require_cpu() {
    static constinit bool asked = false;  // every translation unit has the constructor, and CPUID is dear on a virtual machine
    if (asked) return;
    asked = true;
    for (RequiredFeature const& feature : required_features) {
        unsigned word[4], most[4];
        asm volatile("cpuid" : "=a"(most[0]), "=b"(most[1]), "=c"(most[2]), "=d"(most[3]) : "a"(feature.leaf & 0x80000000u), "c"(0));
        asm volatile("cpuid" : "=a"(word[0]), "=b"(word[1]), "=c"(word[2]), "=d"(word[3]) : "a"(feature.leaf), "c"(feature.subleaf));
        if (most[0] >= feature.leaf && (word[feature.word] >> feature.bit & 1u) != 0) continue;
        char const* const said[] = {"lockstep: expected a machine that has what this program was compiled for, found one without ",
                                    feature.name, "\n"};
        for (char const* text : said) {
            unsigned long length = 0;
            while (text[length] != 0) ++length;
            if (write(2, text, length) < 0) break;
        }
        _exit(2);
    }
}

}  // namespace lockstep::kernel::arch

#endif
