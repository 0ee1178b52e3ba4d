#pragma once
// The tile unit in software, for the tests of its kernels on machines with bfloat16 in AVX-512 but no tiles: a handler of SIGILL does what
// the instruction that the processor does not know says. Encodings and operations: Intel Architecture Instruction Set Extensions
// Programming Reference, AMX.

#if defined(__x86_64__) && defined(__linux__)

#include <immintrin.h>
#include <signal.h>
#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lockstep/kernel/arch/avx512_target.hpp"

namespace test {

/// Tiles of one thread: 8 of 16 rows of 64 bytes, the only configuration that it takes.
struct EmulatedTiles {
    using Tile = std::array<std::array<std::uint32_t, 16>, 16>;

    std::array<Tile, 8> tile{};
    bool                configured = false;
};

class TileEmulator {
public:
    TileEmulator() {
        struct sigaction action {};
        action.sa_sigaction = handle;
        action.sa_flags     = SA_SIGINFO | SA_NODEFER;
        sigaction(SIGILL, &action, &before());
    }
    ~TileEmulator() { sigaction(SIGILL, &before(), nullptr); }
    TileEmulator(TileEmulator const&)            = delete;
    TileEmulator& operator=(TileEmulator const&) = delete;

private:
    using Tile = EmulatedTiles::Tile;

    /// An instruction with a VEX prefix of three bytes in opcode map 0F38.
    struct Instruction {
        unsigned       prefix = 0, opcode = 0, mod = 0, reg = 0, rm = 0, v = 0;
        std::byte*     memory = nullptr;  // base + displacement
        std::ptrdiff_t index  = 0;        // scaled
        std::size_t    length = 0;
    };

    static struct sigaction& before() {
        static struct sigaction action {};
        return action;
    }

    static EmulatedTiles& tiles() {
        static thread_local constinit EmulatedTiles own;
        return own;
    }

    static greg_t general(ucontext_t const& context, unsigned number) {
        constexpr int order[]{REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
        return context.uc_mcontext.gregs[order[number]];
    }

    template <class T>
    static T read(unsigned char const* from) {
        T value;
        std::memcpy(&value, from, sizeof(T));
        return value;
    }

    /// False where it is none of those.
    static bool decode(ucontext_t const& context, Instruction& i) {
        auto const* const code   = reinterpret_cast<unsigned char const*>(context.uc_mcontext.gregs[REG_RIP]);
        unsigned const    second = code[1], third = code[2], high_x = ~second >> 6 & 1u, high_b = ~second >> 5 & 1u;
        if (code[0] != 0xC4 || (second & 0x1F) != 2 || (third & 0x84) != 0) return false;  // W 0, 128 bits
        i.prefix = third & 3u;
        i.v      = ~third >> 3 & 15u;
        i.opcode = code[3];
        i.mod    = code[4] >> 6;
        i.reg    = code[4] >> 3 & 7u;
        i.rm     = code[4] & 7u;
        i.length = 5;
        if (i.mod == 3) return true;
        greg_t   address = 0;
        unsigned base    = i.rm;
        if (i.rm == 4) {
            unsigned const sib = code[i.length++], index = (sib >> 3 & 7u) | high_x << 3;
            base = sib & 7u;
            if (index != 4) i.index = static_cast<std::ptrdiff_t>(general(context, index) << (sib >> 6));
        }
        bool const relative = i.mod == 0 && base == 5;  // to the next instruction without SIB, to nothing with it
        if (!relative) address = general(context, base | high_b << 3);
        if (i.mod == 1) {
            address += read<std::int8_t>(code + i.length);
            i.length += 1;
        } else if (i.mod == 2 || relative) {
            address += read<std::int32_t>(code + i.length);
            i.length += 4;
        }
        if (relative && i.rm == 5) address += context.uc_mcontext.gregs[REG_RIP] + static_cast<greg_t>(i.length);
        i.memory = reinterpret_cast<std::byte*>(address);
        return true;
    }

    /// C += A B, in vectors: pairs are added in another order than on the unit.
    LOCKSTEP_AVX512_TARGET static void multiply(Tile& c, Tile const& a, Tile const& b) {
        for (std::size_t m = 0; m < 16; ++m) {
            __m512 sums = _mm512_loadu_ps(c[m].data());
            for (std::size_t k = 0; k < 16; ++k)
                sums = _mm512_dpbf16_ps(sums, reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[m][k]))),
                                        reinterpret_cast<__m512bh>(_mm512_loadu_si512(b[k].data())));
            _mm512_storeu_ps(c[m].data(), sums);
        }
    }

    /// False where the tile unit would refuse too.
    static bool execute(Instruction const& i) {
        constexpr unsigned none = 0, pF3 = 2, pF2 = 3;
        EmulatedTiles&     own       = tiles();
        bool const         is_memory = i.mod != 3;
        if (i.opcode == 0x49 && i.prefix == none && is_memory) {  // LDTILECFG
            auto const* const config = reinterpret_cast<unsigned char const*>(i.memory);
            own.configured           = config[0] == 1;
            for (std::size_t t = 0; t < 8; ++t)
                own.configured = own.configured && read<std::uint16_t>(config + 16 + 2 * t) == 64 && config[48 + t] == 16;
            own.tile = {};
            return own.configured;
        }
        if (!own.configured) return false;
        if (i.opcode == 0x49 && i.prefix == none) {  // TILERELEASE
            own.configured = false;
        } else if (i.opcode == 0x49 && i.prefix == pF2 && !is_memory) {  // TILEZERO
            own.tile[i.reg] = {};
        } else if (i.opcode == 0x4B && is_memory && i.rm == 4 && i.prefix != none) {
            for (std::size_t row = 0; row < 16; ++row) {
                std::byte* const at = i.memory + static_cast<std::ptrdiff_t>(row) * i.index;
                if (i.prefix == pF3)  // TILESTORED
                    std::memcpy(at, own.tile[i.reg][row].data(), 64);
                else  // TILELOADD, TILELOADDT1
                    std::memcpy(own.tile[i.reg][row].data(), at, 64);
            }
        } else if (i.opcode == 0x5C && i.prefix == pF3 && !is_memory) {  // TDPBF16PS
            multiply(own.tile[i.reg], own.tile[i.rm], own.tile[i.v & 7u]);
        } else {
            return false;
        }
        return true;
    }

    static void handle(int, siginfo_t*, void* at) {
        auto&       context = *static_cast<ucontext_t*>(at);
        Instruction instruction;
        if (decode(context, instruction) && execute(instruction))
            context.uc_mcontext.gregs[REG_RIP] += static_cast<greg_t>(instruction.length);
        else
            sigaction(SIGILL, &before(), nullptr);  // and the instruction is met again
    }
};

}  // namespace test

#endif
