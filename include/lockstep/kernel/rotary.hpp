#pragma once
// Rotary position embedding, half rotation: element j of a head turns with element j + D/2 by t * theta^(-2j/D)
// (Su et al. 2021, arXiv:2104.09864).

#include <cmath>
#include <cstddef>

#include "lockstep/kernel/arch/simd_rotary.hpp"
#include "lockstep/kernel/attention_shape.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/kernel/shape.hpp"
#include "lockstep/precision/mixed.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/runtime/scratch.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel {
namespace detail {

/// Positions that share one exact evaluation of sine and cosine; the others follow by turning on in double.
inline constexpr std::size_t rotary_block = 16;

}  // namespace detail

template <class Arch, class T>
void rotary(Arch tag, AttentionShape s, tensor::View<T, 2> qkv, double theta, bool inverse) {
    using A                    = precision::accumulator<T>;
    std::size_t const half     = s.head_size / 2;
    std::size_t const rotated  = s.heads + s.kv_heads;  // query and key heads lie first
    double const      forwards = inverse ? -1.0 : 1.0;

    runtime::ScratchFrame frame;
    auto const            rate = frame.template take<double>(half);  // radians a position
    for (std::size_t j = 0; j < half; ++j) rate[j] = std::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(s.head_size));

    std::size_t const blocks = (s.sequence + detail::rotary_block - 1) / detail::rotary_block;
    runtime::parallel_for(blocks, detail::rotary_block * s.batch * rotated * s.head_size, [&](std::size_t block) {
        runtime::ScratchFrame inner;
        auto const            cosine = inner.template take<A>(detail::rotary_block * half);
        auto const            sine   = inner.template take<A>(detail::rotary_block * half);
        std::size_t const     begin  = block * detail::rotary_block;
        std::size_t const     count  = s.sequence - begin < detail::rotary_block ? s.sequence - begin : detail::rotary_block;
        for (std::size_t j = 0; j < half; ++j) {
            double       c  = std::cos(static_cast<double>(begin) * rate[j]);
            double       w  = std::sin(static_cast<double>(begin) * rate[j]) * forwards;
            double const c1 = std::cos(rate[j]);
            double const w1 = std::sin(rate[j]) * forwards;
            for (std::size_t t = 0; t < count; ++t) {
                cosine[t * half + j] = static_cast<A>(c);
                sine[t * half + j]   = static_cast<A>(w);
                double const next    = c * c1 - w * w1;
                w                    = w * c1 + c * w1;
                c                    = next;
            }
        }
        for (std::size_t b = 0; b < s.batch; ++b)
            for (std::size_t t = 0; t < count; ++t)
                for (std::size_t h = 0; h < rotated; ++h)
                    arch::rotate_halves(tag, &qkv(b * s.sequence + begin + t, h * s.head_size), &cosine[t * half], &sine[t * half], half);
    });
}

/// Turns the query and key heads of qkv in place, by the position of their row in its sequence. The angle is computed in double from the
/// integer position, whatever T is. `inverse` turns back: that is also the gradient.
template <class T>
void rotary(AttentionShape shape, tensor::View<T, 2> qkv,  // (B*T, (H+2K)*D)
            double theta,                                  // base of the wavelengths, often 10000
            bool   inverse = false) {
    detail::require_attention_shape(shape);
    require_shape("rotary", "qkv", qkv, shape.rows(), shape.qkv_columns());
    require(shape.head_size % 2 == 0, "rotary: the head size must be even, found ", shape.head_size);
    with_arch([&](auto tag) { rotary(tag, shape, qkv, theta, inverse); });
}

}  // namespace lockstep::kernel
