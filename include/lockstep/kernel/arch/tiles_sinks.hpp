#pragma once
// What becomes of a row of sums that leaves the tiles: 32 floats, of which the first `columns` count. All of it in fp32, rounded once.
// Rounding to bfloat16 is VCVTNE2PS2BF16: to nearest even, denormals become zero.

#include "lockstep/kernel/arch/tiles_activation.hpp"
#include "lockstep/kernel/arch/tiles_micro_kernel.hpp"

#if LOCKSTEP_TILES

#include <immintrin.h>

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/tensor/view.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms of GCC 12 inside its own avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lockstep::kernel::arch {

using precision::bfloat16;

/// 32 neighbours of a row.
struct Lanes32 {
    __m512 low, high;
};

namespace detail {

LOCKSTEP_AVX512_INLINE Lanes32 load_lanes(float const* from, std::size_t count) noexcept {
    if (count >= 32) return {_mm512_loadu_ps(from), _mm512_loadu_ps(from + 16)};
    __mmask32 const mask = first_lanes(count);
    return {_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from),
            _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), from + 16)};
}

LOCKSTEP_AVX512_INLINE Lanes32 widen(__m512i words) noexcept {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(words)), 16)),
            _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(words, 1)), 16))};
}

LOCKSTEP_AVX512_INLINE Lanes32 load_lanes(bfloat16 const* from, std::size_t count) noexcept {
    return widen(count >= 32 ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi16(first_lanes(count), from));
}

LOCKSTEP_AVX512_INLINE __m512i narrow(Lanes32 x) noexcept { return (__m512i)_mm512_cvtne2ps_pbh(x.high, x.low); }

LOCKSTEP_AVX512_INLINE void store_lanes(float* to, Lanes32 x, std::size_t count, bool past_caches = false) noexcept {
    if (count >= 32 && past_caches) {
        _mm512_stream_ps(to, x.low);
        _mm512_stream_ps(to + 16, x.high);
    } else if (count >= 32) {
        _mm512_storeu_ps(to, x.low);
        _mm512_storeu_ps(to + 16, x.high);
    } else {
        __mmask32 const mask = first_lanes(count);
        _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), x.low);
        _mm512_mask_storeu_ps(to + 16, static_cast<__mmask16>(mask >> 16), x.high);
    }
}

LOCKSTEP_AVX512_INLINE void store_lanes(bfloat16* to, __m512i words, std::size_t count, bool past_caches = false) noexcept {
    if (count >= 32 && past_caches)
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to), words);
    else if (count >= 32)
        _mm512_storeu_si512(to, words);
    else
        _mm512_mask_storeu_epi16(to, first_lanes(count), words);
}

LOCKSTEP_AVX512_INLINE void store_lanes(bfloat16* to, Lanes32 x, std::size_t count, bool past_caches = false) noexcept {
    store_lanes(to, narrow(x), count, past_caches);
}

LOCKSTEP_AVX512_INLINE Lanes32 add(Lanes32 x, Lanes32 y) noexcept { return {_mm512_add_ps(x.low, y.low), _mm512_add_ps(x.high, y.high)}; }

}  // namespace detail

template <class T>
concept tile_output = std::same_as<T, float> || std::same_as<T, bfloat16>;

/// Where results go: into the caches, or past them, which is half again as quick as long as nobody reads them at once.
enum class Stores { cached, past_caches, by_size };

/// Rows of a matrix that a sink reads.
template <class T>
struct SourceRows {
    T const*    data;
    std::size_t stride;

    explicit SourceRows(tensor::View<T const, 2> view) noexcept : data(view.data()), stride(view.stride(0)) {}

    LOCKSTEP_AVX512_INLINE Lanes32 load(std::size_t row, std::size_t column, std::size_t columns) const noexcept {
        return detail::load_lanes(data + row * stride + column, columns);
    }

    /// The lines of a block of 32 columns, to be read soon.
    LinesAhead ahead(std::size_t row, std::size_t column, std::size_t rows) const noexcept {
        return {reinterpret_cast<std::byte const*>(data + row * stride + column), 1, rows, stride * sizeof(T)};
    }
};

/// Rows of a matrix that a sink writes.
template <tile_output T>
struct SinkRows {
    T*          data;
    std::size_t stride;
    bool        past_caches;

    SinkRows(tensor::View<T, 2> view, Stores stores) noexcept : data(view.data()), stride(view.stride(0)) {
        constexpr std::size_t large   = std::size_t{1} << 20;  // bytes that the second-level cache will not hold until they are read
        bool const            wanted  = stores == Stores::past_caches || (stores == Stores::by_size && view.size() * sizeof(T) >= large);
        bool const            aligned = (reinterpret_cast<std::uintptr_t>(data) | stride * sizeof(T)) % 64 == 0;
        past_caches                   = wanted && aligned;
    }

    template <class X>
    LOCKSTEP_AVX512_INLINE void store(std::size_t row, std::size_t column, X x, std::size_t columns) const noexcept {
        detail::store_lanes(data + row * stride + column, x, columns, past_caches);
    }
};

/// y = sums + bias. `bias` may be null.
template <tile_output Y, tile_output B>
struct StoreSink {
    SinkRows<Y> y;
    B const*    bias;

    bool past_caches() const noexcept { return y.past_caches; }

    LOCKSTEP_AVX512_INLINE void operator()(float const* sums, std::size_t row, std::size_t column, std::size_t columns) const noexcept {
        Lanes32 x = detail::load_lanes(sums, block_size);
        if (bias != nullptr) x = detail::add(x, detail::load_lanes(bias + column, columns));
        y.store(row, column, x, columns);
    }
};

/// pre = sums + bias, y = gelu(pre as stored): what the backward pass sees.
template <tile_output B>
struct GeluSink {
    SinkRows<bfloat16> y;
    B const*           bias;
    SinkRows<bfloat16> pre;

    bool past_caches() const noexcept { return y.past_caches; }

    LOCKSTEP_AVX512_INLINE void operator()(float const* sums, std::size_t row, std::size_t column, std::size_t columns) const noexcept {
        Lanes32 x = detail::load_lanes(sums, block_size);
        if (bias != nullptr) x = detail::add(x, detail::load_lanes(bias + column, columns));
        __m512i const rounded = detail::narrow(x);
        x                     = detail::widen(rounded);
        pre.store(row, column, rounded, columns);
        y.store(row, column, Lanes32{gelu(x.low), gelu(x.high)}, columns);
    }
};

/// dx = sums * gelu'(pre).
template <tile_output DX>
struct GeluGradSink {
    SinkRows<DX>         dx;
    SourceRows<bfloat16> pre;

    bool       past_caches() const noexcept { return dx.past_caches; }
    LinesAhead ahead(std::size_t row, std::size_t column, std::size_t rows) const noexcept { return pre.ahead(row, column, rows); }

    LOCKSTEP_AVX512_INLINE void operator()(float const* sums, std::size_t row, std::size_t column, std::size_t columns) const noexcept {
        Lanes32 const x = detail::load_lanes(sums, block_size), v = pre.load(row, column, columns);
        dx.store(row, column, Lanes32{_mm512_mul_ps(x.low, gelu_slope_at(v.low)), _mm512_mul_ps(x.high, gelu_slope_at(v.high))}, columns);
    }
};

}  // namespace lockstep::kernel::arch

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
