#pragma once
// Loops over a row in batches, the last one partial. A lane's result never depends on the place of its batch.

#include <cstddef>

#include "lockstep/kernel/arch/simd_batch.hpp"

namespace lockstep::kernel::arch {

/// All lanes of a batch, or the first `count` of them.
struct AllLanes {};
struct SomeLanes {
    std::size_t count;
};

template <simd_element T>
Batch load(T const* from, AllLanes, float = 0.0f) noexcept {
    return load(from);
}
template <simd_element T>
Batch load(T const* from, SomeLanes lanes, float rest = 0.0f) noexcept {
    return load(from, lanes.count, rest);
}
template <simd_element T>
void store(T* to, Batch value, AllLanes) noexcept {
    store(to, value);
}
template <simd_element T>
void store(T* to, Batch value, SomeLanes lanes) noexcept {
    store(to, value, lanes.count);
}

/// Calls body(i, lanes) for the batches that start at elements i = 0, width, ...
template <class Body>
void for_batches(std::size_t count, Body const& body) {
    std::size_t i = 0;
    for (; i + width <= count; i += width) body(i, AllLanes{});
    if (i < count) body(i, SomeLanes{count - i});
}

/// Sum of the batches term(i, lanes) over a row, in four chains and then a tree. Lanes beyond the row must be zero.
template <class Term>
float sum_batches(std::size_t count, Term const& term) {
    Batch       s0(0.0f), s1(0.0f), s2(0.0f), s3(0.0f);
    std::size_t i = 0;
    for (; i + 4 * width <= count; i += 4 * width) {
        s0 += term(i, AllLanes{});
        s1 += term(i + width, AllLanes{});
        s2 += term(i + 2 * width, AllLanes{});
        s3 += term(i + 3 * width, AllLanes{});
    }
    for (; i + width <= count; i += width) s0 += term(i, AllLanes{});
    if (i < count) s1 += term(i, SomeLanes{count - i});
    return horizontal_sum((s0 + s1) + (s2 + s3));
}

}  // namespace lockstep::kernel::arch
