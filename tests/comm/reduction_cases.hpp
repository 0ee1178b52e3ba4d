#pragma once
// Contributions that each rank can compute for all ranks, and the serial sum in the order that the reduction promises.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "lockstep/comm/part.hpp"
#include "lockstep/comm/wire.hpp"
#include "lockstep/precision/bfloat16.hpp"

namespace comm_test {

/// SplitMix64 of two keys.
inline std::uint64_t scramble(std::uint64_t a, std::uint64_t b) {
    std::uint64_t z = a * 0x9E3779B97F4A7C15u + b * 0xD1342543DE82EF95u + 0x632BE59BD9B4E019u;
    z               = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z               = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/// What a rank contributes to an element: both signs, magnitudes from 2^-12 to 2^12, so that the order of a sum shows.
template <class T>
T contribution(std::uint64_t seed, std::size_t rank, std::size_t element) {
    std::uint64_t const bits      = scramble(scramble(seed, rank), element);
    T const             magnitude = static_cast<T>(1 + static_cast<double>(bits >> 40) * 0x1p-24) *
                        static_cast<T>(std::uint64_t{1} << (bits & 15) * 24 / 15) * static_cast<T>(0x1p-12);
    return (bits & 16) != 0 ? -magnitude : magnitude;
}

template <class T>
T serial_tree(std::uint64_t seed, std::size_t ranks, std::size_t element, lockstep::comm::Wire wire) {
    std::vector<T> x(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        x[rank] = contribution<T>(seed, rank, element);
        if (wire == lockstep::comm::Wire::bf16)
            x[rank] = static_cast<T>(static_cast<float>(lockstep::precision::bfloat16(static_cast<float>(x[rank]))));
    }
    for (std::size_t s = 1; s < ranks; s *= 2)
        for (std::size_t i = 0; i + s < ranks; i += 2 * s) x[i] += x[i + s];
    return x[0];
}

template <class T>
bool same_bits(T a, T b) {
    return std::memcmp(&a, &b, sizeof(T)) == 0;
}

struct Cut {
    std::vector<lockstep::Range> parts;
    std::size_t                  size = 0;  // of a buffer that has some elements before and after all parts
};

/// Parts of up to `largest` elements, some of them empty, the first not at the beginning of the buffer.
inline Cut random_parts(std::uint64_t seed, std::size_t ranks, std::size_t largest) {
    Cut         cut;
    std::size_t begin = scramble(seed, 1000) % 9;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        std::uint64_t const draw = scramble(seed, 2000 + rank);
        std::size_t const   size = draw % 4 == 0 ? 0 : (draw >> 8) % largest;
        cut.parts.push_back({begin, begin + size});
        begin += size;
    }
    cut.size = begin + scramble(seed, 3000) % 5;
    return cut;
}

}  // namespace comm_test
