#pragma once
// The sum of one element over the ranks: a binary tree over rank index, whatever the sizes of buckets and parts.

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"

namespace lockstep::comm {

/// Most ranks that an ordered sum takes: its partial sums lie on the stack, one a level of the tree.
inline constexpr int most_leaves = 32768;

namespace detail {

template <class To, class From>
void add_to(To* sum, From const* terms, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) sum[i] += static_cast<To>(terms[i]);
}

}  // namespace detail

/// out[i] = (or +=) the sum of leaf(r)[i] over ranks r in the order
/// `for (s = 1; s < ranks; s *= 2) for (r = 0; r + s < ranks; r += 2 * s) x[r] += x[r + s]`, all in T.
/// `leaf(r)` points to rank r's `count` elements; one of them may be `out`.
template <class T, class Leaf>
void ordered_sum(Leaf const& leaf, int ranks, std::size_t count, T* out, bool add) noexcept {
    constexpr std::size_t block  = 512;
    constexpr std::size_t levels = 16;
    alignas(alignment) T  partial[levels][block];
    for (std::size_t begin = 0; begin < count; begin += block) {
        std::size_t const size = std::min(block, count - begin);
        std::size_t       top  = 0;
        for (int rank = 0; rank < ranks; rank += 2) {
            T* const   pair = partial[top++];
            auto const even = leaf(rank) + begin;
            if (rank + 1 < ranks) {
                auto const odd = leaf(rank + 1) + begin;
                for (std::size_t i = 0; i < size; ++i) pair[i] = static_cast<T>(even[i]) + static_cast<T>(odd[i]);
            } else {
                for (std::size_t i = 0; i < size; ++i) pair[i] = static_cast<T>(even[i]);
            }
            for (int subtree = rank / 2; subtree % 2 == 1; subtree /= 2, --top) detail::add_to(partial[top - 2], partial[top - 1], size);
        }
        for (; top > 1; --top) detail::add_to(partial[top - 2], partial[top - 1], size);
        if (add)
            detail::add_to(out + begin, partial[0], size);
        else
            std::copy_n(partial[0], size, out + begin);
    }
}

}  // namespace lockstep::comm
