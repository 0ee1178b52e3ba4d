#pragma once
// Dropout (Srivastava et al. 2014), with a mask that is a function of (key, element): the same call is its own backward.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lockstep/core/random.hpp"
#include "lockstep/kernel/arch/simd_dropout.hpp"
#include "lockstep/kernel/drop_threshold.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/kernel/row_pieces.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel {

using tensor::View;

/// Element i (in row-major order of the view) is kept where the random number of (key, first_element + i) is not below `probability`,
/// and then scaled by 1 / (1 - probability); else it becomes 0. For the gradient call it again with the same key and first element.
template <precision::compute_element T>
void dropout(View<T, 2> x,  // (N,C)
             float probability, RandomKey key, std::uint64_t first_element) {
    require(probability >= 0.0f && probability < 1.0f, "dropout: the probability must be in [0, 1), found ", probability);
    if (probability == 0.0f) return;
    using A              = precision::accumulator<T>;
    A const    factor    = A(1) / (A(1) - static_cast<A>(probability));
    auto const threshold = drop_threshold(probability);
    with_arch([&](auto tag) {
        for_each_piece(x.extent(0), x.extent(1), 4, [&](std::size_t row, std::size_t begin, std::size_t end) {
            std::uint64_t     element = first_element + row * x.extent(1) + begin;
            T*                at      = x.row(row).data() + begin;
            T* const          last    = at + (end - begin);
            arch::RandomWords words;
            while (at < last) {
                std::size_t const skip  = element % 4;
                std::size_t const count = std::min(words.size() - skip, static_cast<std::size_t>(last - at));
                arch::random_words(tag, key, element / 4, words);
                arch::drop_block(tag, words.data() + skip, threshold, factor, at, count);
                at += count;
                element += count;
            }
        });
    });
}

}  // namespace lockstep::kernel
