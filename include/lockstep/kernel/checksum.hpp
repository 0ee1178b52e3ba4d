#pragma once
// Checksums of buffers that add up: the sum over the shards of a buffer is the checksum of the whole.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/kernel/mixed_sum.hpp"
#include "lockstep/runtime/parallel_for.hpp"

namespace lockstep::kernel {

/// Sum modulo 2^64 of mix64(first_index + i, bits of element i).
template <class T>
std::uint64_t checksum(std::span<T> values, std::uint64_t first_index) {
    constexpr std::size_t      block = 16384;
    std::atomic<std::uint64_t> total{0};
    runtime::parallel_for((values.size() + block - 1) / block, 4 * block, [&](std::size_t b) {
        std::size_t const begin = b * block, count = std::min(block, values.size() - begin);
        total.fetch_add(mixed_sum(sizeof(T), std::as_bytes(values.subspan(begin, count)), first_index + begin),
                        std::memory_order_relaxed);  // in any order: integers
    });
    return total.load();
}

}  // namespace lockstep::kernel
