#pragma once
// Sums, copies and fills of whole tensors.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "lockstep/kernel/arch/simd_elementwise.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/kernel/row_pieces.hpp"
#include "lockstep/kernel/shape.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel {

using tensor::View;

/// y += x. The sum is in the accumulator of y, rounded once.
template <class X, precision::compute_element Y>
void add(View<X, 2> x,    // (N,C)
         View<Y, 2> y) {  // (N,C)
    require_shape("add", "y", y, x.extent(0), x.extent(1));
    with_arch([&](auto tag) {
        for_each_piece(x.extent(0), x.extent(1), 1, [&](std::size_t row, std::size_t begin, std::size_t end) {
            arch::add_block(tag, x.row(row).data() + begin, y.row(row).data() + begin, end - begin);
        });
    });
}

/// y = x.
template <class X, precision::compute_element T>
    requires std::same_as<std::remove_const_t<X>, T>
void copy(View<X, 2> x,    // (N,C)
          View<T, 2> y) {  // (N,C)
    require_shape("copy", "y", y, x.extent(0), x.extent(1));
    for_each_piece(x.extent(0), x.extent(1), 1, [&](std::size_t row, std::size_t begin, std::size_t end) {
        std::memmove(y.row(row).data() + begin, x.row(row).data() + begin, (end - begin) * sizeof(T));
    });
}

/// Every element becomes `value`.
template <precision::compute_element T>
void fill(std::span<T> values, T value) {
    constexpr std::size_t block = 16384;
    runtime::parallel_for((values.size() + block - 1) / block, block, [&](std::size_t b) {
        std::ranges::fill(values.subspan(b * block, std::min(block, values.size() - b * block)), value);
    });
}

}  // namespace lockstep::kernel
