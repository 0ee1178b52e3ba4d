#pragma once
// Operands of benchmarks: random numbers, in large pages, laid out as in a training step.

#include <sys/mman.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/kernel/weight_copies.hpp"
#include "lockstep/state/model_sizes.hpp"
#include "lockstep/tensor/row_stride.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::bench {

using precision::bfloat16;

template <class T>
constexpr char const* type_name = std::same_as<T, float> ? "fp32" : "bf16";

struct Free {
    void operator()(void* data) const { std::free(data); }
};

/// Memory in large pages, as the buffers of a training step have it.
template <class T>
class Buffer {
public:
    explicit Buffer(std::size_t count) {
        constexpr std::size_t page  = std::size_t{2} << 20;
        std::size_t const     bytes = (count * sizeof(T) + page - 1) / page * page;
        data_.reset(static_cast<T*>(std::aligned_alloc(page, bytes)));
        madvise(data_.get(), bytes, MADV_HUGEPAGE);
        std::fill_n(reinterpret_cast<std::byte*>(data_.get()), bytes, std::byte{0});
    }
    T* get() const { return data_.get(); }

private:
    std::unique_ptr<T, Free> data_;
};

/// Normally distributed numbers; a prime number of them, so that rows and columns differ.
inline float normal(std::size_t i) {
    static std::vector<float> const table = [] {
        std::vector<float> values(65521);
        for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(random_normal({1, 1, 0}, k));
        return values;
    }();
    return table[i % table.size()];
}

/// A matrix of activations, its rows as far apart as in a training step.
template <class T>
class Activations {
public:
    Activations(std::size_t rows, std::size_t columns, std::size_t purpose)
        : rows_(rows), columns_(columns), stride_(tensor::row_stride(columns, sizeof(T))), buffer_(rows * stride_) {
        for (std::size_t i = 0; i < rows * stride_; ++i) buffer_.get()[i] = T(normal(i + 7919 * purpose));
    }
    tensor::View<T, 2> view() const { return {buffer_.get(), {rows_, columns_}, {stride_, 1}}; }

private:
    std::size_t rows_, columns_, stride_;
    Buffer<T>   buffer_;
};

inline double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

/// A weight [rows, columns] as the kernels in use read it: masters, and both copies of it where it is in tiles, else one.
template <class T>
struct Weight {
    state::MatrixMap map;
    Buffer<float>    masters;
    Buffer<T>        forward, backward;

    Weight(std::size_t rows, std::size_t columns, float scale = 1)
        : map(rows, columns, kernel::weight_layout<T>()), masters(map.size()), forward(map.size()), backward(in_tiles() ? map.size() : 0) {
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = 0; c < columns; ++c) masters.get()[map(r, c)] = scale * normal(r * columns + c);
        std::span<float const> const from(masters.get(), map.size());
        std::span<T> const           to(forward.get(), map.size());
        if (in_tiles())
            kernel::write_weight_copies(true, from, to, std::span(backward.get(), map.size()));
        else
            kernel::convert_block(from, to);
    }

    static bool in_tiles() noexcept { return kernel::weight_layout<T>() == kernel::packed_layout; }

    state::Matrix<T const> for_forward() const { return {forward.get(), in_tiles() ? map.reordered(state::TileOrder::column_pairs) : map}; }
    state::Matrix<T const> for_input_grad() const {
        return in_tiles() ? state::Matrix<T const>{backward.get(), map.reordered(state::TileOrder::row_pairs)} : for_forward();
    }
    state::Matrix<float> gradient() const { return {masters.get(), map}; }
};

/// Sequences of random tokens, each labelled with the next one.
class RandomBatch {
public:
    RandomBatch(std::size_t sequences, state::ModelSizes const& sizes)
        : sequences_(sequences), length_(sizes.sequence), ids_(sequences * sizes.sequence + 1) {
        for (std::size_t i = 0; i < ids_.size(); ++i) ids_[i] = static_cast<std::int32_t>(random_bits({1, 1, 0}, i) % sizes.vocab);
    }
    data::Batch view() const {
        std::span<std::int32_t const> const ids(ids_);
        return {.sequences    = sequences_,
                .length       = length_,
                .first_sample = 0,
                .tokens       = ids.first(ids.size() - 1),
                .labels       = ids.last(ids.size() - 1)};
    }

private:
    std::size_t               sequences_, length_;
    std::vector<std::int32_t> ids_;
};

inline constexpr state::ModelSizes shakespeare_cpu{
    .layers = 4, .heads = 4, .kv_heads = 4, .dim = 128, .ffn = 512, .vocab = 256, .sequence = 64};

}  // namespace lockstep::bench
