#pragma once
// The innermost product: a block of 32 x 32 sums in tiles 0 to 3, two tiles of the left operand and two of the right one at a time.
//
// One operand is read again and again and stays in the first-level cache; the other one streams from the second level with loads that
// do not displace the first. Storing tiles is dear unless it is spread out, so the sums of a block are stored while the next block begins,
// and what becomes of them is done row by row between the steps of that next block. Without a tile unit vectors compute the block whole.

#include "lockstep/kernel/arch/amx_tile.hpp"

#if LOCKSTEP_TILES

#include <algorithm>
#include <cstddef>

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {

/// Rows and columns of a block of sums, and what one step adds up: all matrices are padded to multiples of it.
inline constexpr std::size_t block_size = 32;

/// Distance of the rows of a block of sums in memory: blocks lie like the tiles of state::Layout{32, 32}.
inline constexpr std::size_t sum_bytes = block_size * sizeof(float);

/// The left operand: 32 rows with consecutive bfloat16, a step takes 32 of each.
struct LeftPanel32 {
    std::byte const* data;
    std::size_t      row, step;  // bytes
};

/// The right operand: a step takes 2 KB, two tiles of 16 columns each with pairs of rows interleaved.
struct RightPanel32 {
    std::byte const* data;
    std::size_t      step;  // bytes
};

enum class Streams { left, right };

/// Cache lines to be asked for while something else is computed: `lines` of each of `rows` rows.
struct LinesAhead {
    std::byte const* data  = nullptr;
    std::size_t      lines = 0, rows = 0, row_bytes = 0;
    std::size_t      at_once = 0;  // lines a step
    std::size_t      line    = 0;

    /// Asks for the next lines, for the second-level cache.
    __attribute__((always_inline)) void ask() noexcept {
        for (std::size_t i = 0; i < at_once && rows != 0; ++i) {
            __builtin_prefetch(data + line * 64, 0, 2);
            if (++line >= lines) line = 0, data += row_bytes, --rows;
        }
    }
};

/// Sums that are still in tiles: where they are stored, and the rows of them that a sink then gets.
struct Unfinished {
    float*      sums = nullptr;  // null: there are none
    std::size_t row = 0, column = 0, rows = 0, columns = 0;
};

namespace detail {

template <int Tile, bool Streaming>
__attribute__((always_inline)) inline void load_operand(std::byte const* from, std::size_t stride) noexcept {
    if constexpr (Streaming)
        tile_load_streaming<Tile>(from, stride);
    else
        tile_load<Tile>(from, stride);
}

/// One step, in the order of loads that was measured to be best.
template <Streams streams, bool Resident>
__attribute__((always_inline)) inline void multiply_step(LeftPanel32& a, RightPanel32& b) noexcept {
    constexpr bool left_streams = streams == Streams::left || !Resident, right_streams = streams == Streams::right || !Resident;
    if constexpr (streams == Streams::left) {
        load_operand<4, left_streams>(a.data, a.row);
        load_operand<5, left_streams>(a.data + tile_height * a.row, a.row);
        load_operand<6, right_streams>(b.data, tile_bytes);
        load_operand<7, right_streams>(b.data + 1024, tile_bytes);
        tile_multiply<0, 4, 6>();
        tile_multiply<2, 5, 6>();
        tile_multiply<1, 4, 7>();
        tile_multiply<3, 5, 7>();
    } else {
        load_operand<6, right_streams>(b.data, tile_bytes);
        load_operand<4, left_streams>(a.data, a.row);
        load_operand<7, right_streams>(b.data + 1024, tile_bytes);
        load_operand<5, left_streams>(a.data + tile_height * a.row, a.row);
        tile_multiply<0, 4, 6>();
        tile_multiply<2, 5, 6>();
        tile_multiply<1, 4, 7>();
        tile_multiply<3, 5, 7>();
    }
    a.data += a.step;
    b.data += b.step;
}

/// Stores the old sums of a tile, if there are any, and starts it from zero or from memory.
template <int Tile>
__attribute__((always_inline)) inline void exchange(float* old, float const* start) noexcept {
    constexpr std::size_t place = Tile / 2 * tile_height * block_size + Tile % 2 * 16;
    if (old != nullptr) tile_store<Tile>(old + place, sum_bytes);
    if (start != nullptr)
        tile_load<Tile>(start + place, sum_bytes);
    else
        tile_zero<Tile>();
}

/// The first step, with the exchange of the sums between its multiplications.
template <Streams streams>
__attribute__((always_inline)) inline void first_step(LeftPanel32& a, RightPanel32& b, float* old, float const* start) noexcept {
    constexpr bool left_streams = streams == Streams::left, right_streams = streams == Streams::right;
    load_operand<6, right_streams>(b.data, tile_bytes);
    load_operand<4, left_streams>(a.data, a.row);
    exchange<0>(old, start);
    tile_multiply<0, 4, 6>();
    load_operand<7, right_streams>(b.data + 1024, tile_bytes);
    exchange<1>(old, start);
    tile_multiply<1, 4, 7>();
    load_operand<5, left_streams>(a.data + tile_height * a.row, a.row);
    exchange<2>(old, start);
    tile_multiply<2, 5, 6>();
    exchange<3>(old, start);
    tile_multiply<3, 5, 7>();
    a.data += a.step;
    b.data += b.step;
}

template <class Sink>
LOCKSTEP_AVX512_INLINE void finish_rows(Sink const& sink, Unfinished const& old, std::size_t begin, std::size_t end) noexcept {
    for (std::size_t r = begin; r < end; ++r) sink(old.sums + r * block_size, old.row + r, old.column, old.columns);
}

/// Without a tile unit: to = (start or 0) + a b.
LOCKSTEP_AVX512_LEAF inline void multiply_panels_in_vectors(LeftPanel32 a, RightPanel32 b, std::size_t steps, float const* start,
                                                            float* to) noexcept {
    for (std::size_t half = 0; half < 2; ++half)
        multiply_vectors({a.data + half * tile_height * a.row, a.row, a.step}, {b.data, b.data + 1024, b.step}, steps,
                         start != nullptr ? start + half * tile_height * block_size : nullptr, to + half * tile_height * block_size);
}

}  // namespace detail

/// Stores and finishes the sums of the last block.
template <class Sink>
LOCKSTEP_AVX512_INLINE void finish(Unfinished const& old, Sink const& sink) noexcept {
    if (old.sums == nullptr) return;
    if (!without_tile_unit()) {
        tile_store<0>(old.sums, sum_bytes);
        tile_store<1>(old.sums + 16, sum_bytes);
        tile_store<2>(old.sums + tile_height * block_size, sum_bytes);
        tile_store<3>(old.sums + tile_height * block_size + 16, sum_bytes);
    }
    detail::finish_rows(sink, old, 0, old.rows);
}

/// tiles 0-3 = (start or 0) + a b over `steps` >= 1; only the first `resident` of them are meant to stay in the first-level cache. Without
/// a tile unit the sums are at once where they belong, at `to`. Stores and finishes `old` meanwhile: `sink(sums, row, column, columns)`
/// gets each row of it once. Asks for lines of what comes next: of the resident operand, of sums, of what the sink will read, of the
/// streaming operand.
template <Streams streams, class Sink>
LOCKSTEP_AVX512_INLINE void multiply_panels(LeftPanel32 a, RightPanel32 b, std::size_t steps, std::size_t resident, float const* start,
                                            float* to, Unfinished const& old, Sink const& sink, LinesAhead& operand, LinesAhead sums,
                                            LinesAhead rows_read, LinesAhead* streaming = nullptr) noexcept {
    if (without_tile_unit()) {
        finish(old, sink);
        return detail::multiply_panels_in_vectors(a, b, steps, start, to);
    }
    detail::first_step<streams>(a, b, old.sums, start);
    std::size_t const rows        = old.sums != nullptr ? old.rows : 0;
    std::size_t const rows_a_step = steps > 2 ? (rows + steps - 3) / (steps - 2) : 0;
    std::size_t       done        = 0;
    for (std::size_t step = 1; step < steps; ++step) {
        if (step < resident)
            detail::multiply_step<streams, true>(a, b);
        else
            detail::multiply_step<streams, false>(a, b);
        operand.ask();
        if (streaming != nullptr) streaming->ask();
        sums.ask();
        rows_read.ask();
        if (step == 1) continue;
        std::size_t const end = std::min(rows, done + rows_a_step);
        detail::finish_rows(sink, old, done, end);
        done = end;
    }
    detail::finish_rows(sink, old, done, rows);
}

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
