#pragma once
// From the buffers of a trainer to the row-major tensors of a checkpoint, and back. No type of a policy is left here.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/io/checkpoint_reader.hpp"
#include "lockstep/io/checkpoint_writer.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/state/row_major.hpp"
#include "lockstep/train/checkpoint_state.hpp"

namespace lockstep {

namespace detail {

template <std::size_t Width>
void gather(std::byte* out, std::byte const* in, std::size_t count, std::size_t stride) noexcept {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(out + i * Width, in + i * stride * Width, Width);
}
template <std::size_t Width>
void scatter(std::byte* out, std::byte const* in, std::size_t count, std::size_t stride) noexcept {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(out + i * stride * Width, in + i * Width, Width);
}

/// Row-major `elements` of a part from where they lie to `out`, or from `in` to where they lie.
template <std::size_t Width>
void move_out(StoredPart const& part, Range elements, std::byte* out) {
    state::for_each_run(*part.parameter, elements, [&](std::size_t element, std::size_t place, std::size_t count, std::size_t stride) {
        std::byte* const       to   = out + (element - elements.begin) * Width;
        std::byte const* const from = part.held + (place - part.range.begin) * Width;
        if (stride == 1)
            std::memcpy(to, from, count * Width);
        else
            gather<Width>(to, from, count, stride);
    });
}
template <std::size_t Width>
void move_in(StoredPart const& part, Range elements, std::byte const* in) {
    state::for_each_run(*part.parameter, elements, [&](std::size_t element, std::size_t place, std::size_t count, std::size_t stride) {
        scatter<Width>(part.held + (place - part.range.begin) * Width, in + (element - elements.begin) * Width, count, stride);
    });
}

/// The first element that is no finite number, counted from the first, or their number.
template <class T>
std::size_t first_not_finite(std::span<std::byte const> elements) {
    std::size_t const count = elements.size() / sizeof(T);
    for (std::size_t i = 0; i < count; ++i) {
        T value;
        std::memcpy(&value, elements.data() + i * sizeof(T), sizeof(T));
        if (!std::isfinite(value)) return i;
    }
    return count;
}

/// A master that is no finite number would end the run, later and with less to say.
inline void check_master(StoredPart const& part, Range elements, std::span<std::byte const> bytes, std::string const& source) {
    if (!part.name.starts_with("master.") || (part.dtype != io::Dtype::f32 && part.dtype != io::Dtype::f64)) return;
    std::size_t const first = part.dtype == io::Dtype::f32 ? first_not_finite<float>(bytes) : first_not_finite<double>(bytes);
    if (first < elements.size())
        input_error(source, ": tensor \"", part.name, "\": expected finite numbers, found another at element ", elements.begin + first);
}

/// Calls body(std::integral_constant<std::size_t, width>) for the width of a dtype of state.
template <class Body>
void with_width(io::Dtype dtype, Body const& body) {
    switch (io::bytes(dtype)) {
        case 8:
            return body(std::integral_constant<std::size_t, 8>());
        case 4:
            return body(std::integral_constant<std::size_t, 4>());
        case 2:
            return body(std::integral_constant<std::size_t, 2>());
        default:
            return body(std::integral_constant<std::size_t, 1>());
    }
}

}  // namespace detail

/// What this rank writes, with places in a copy.
inline std::vector<io::CheckpointPiece> pieces_of(std::span<StoredPart const> parts) {
    std::vector<io::CheckpointPiece> pieces;
    std::size_t                      offset = 0;
    for (StoredPart const& part : parts)
        for (Range const range : state::row_major_ranges(*part.parameter, part.counted)) {
            pieces.push_back({part.name, part.dtype, part.shape(), range, offset});
            offset += (pieces.back().bytes() + alignment - 1) / alignment * alignment;
        }
    return pieces;
}

/// Fills the places of `pieces_of` in `copy`, on the threads of the surrounding `Threads::run`.
inline void copy_state(std::span<StoredPart const> parts, std::span<io::CheckpointPiece const> pieces, std::span<std::byte> copy) {
    constexpr std::size_t together = 65536;  // elements of a task
    auto                  piece    = pieces.begin();
    for (StoredPart const& part : parts)
        detail::with_width(part.dtype, [&](auto width) {
            for (; piece != pieces.end() && piece->tensor == part.name; ++piece)
                runtime::parallel_for((piece->range.size() + together - 1) / together, together, [&](std::size_t block) {
                    std::size_t const begin = piece->range.begin + block * together;
                    detail::move_out<width()>(part, {begin, std::min(piece->range.end, begin + together)},
                                              copy.data() + piece->offset + block * together * width());
                });
        });
}

/// Reads everything that this rank holds.
inline void read_state(std::span<StoredPart const> parts, io::CheckpointReader& checkpoint) {
    for (StoredPart const& part : parts)
        detail::with_width(part.dtype, [&](auto width) {
            auto const wanted = state::row_major_ranges(*part.parameter, part.range);
            checkpoint.read(part.name, wanted, [&](Range elements, std::span<std::byte const> bytes) {
                detail::check_master(part, elements, bytes, checkpoint.name());
                detail::move_in<width()>(part, elements, bytes.data());
            });
        });
}

}  // namespace lockstep
