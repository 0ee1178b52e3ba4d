#pragma once
// Attention by plain loops, one query at a time: the reference of the blocked versions.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "lockstep/kernel/arch/tags.hpp"
#include "lockstep/kernel/attention_shape.hpp"
#include "lockstep/precision/mixed.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/runtime/scratch.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel {
namespace detail {

template <class A, class X, class Y>
A dot(X const* x, Y const* y, std::size_t count) {
    A sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += static_cast<A>(x[i]) * static_cast<A>(y[i]);
    return sum;
}

}  // namespace detail

template <class X, class Y, class L>
void attention_forward(arch::scalar, AttentionShape s, tensor::View<X, 2> qkv, tensor::View<Y, 2> out, tensor::View<L, 2> lse,
                       AttentionDropout const& dropout) {
    using A                        = precision::accumulator<std::remove_const_t<X>>;
    std::size_t const        T     = s.sequence;
    std::size_t const        D     = s.head_size;
    A const                  scale = A(1) / std::sqrt(static_cast<A>(D));
    detail::DropFactor const factor(dropout);

    runtime::parallel_for(s.batch * s.heads, T * T * D, [&](std::size_t block) {
        std::size_t const     b = block / s.heads;
        std::size_t const     h = block % s.heads;
        runtime::ScratchFrame frame;
        auto const            weight = frame.template take<A>(T);
        auto const            sum    = frame.template take<A>(D);
        for (std::size_t t = 0; t < T; ++t) {
            X const* const q       = &qkv(b * T + t, h * D);
            A              largest = -std::numeric_limits<A>::infinity();
            for (std::size_t k = 0; k <= t; ++k) {
                weight[k] = scale * detail::dot<A>(q, &qkv(b * T + k, s.key_column(h / s.group())), D);
                largest   = std::max(largest, weight[k]);
            }
            A total = 0;
            for (std::size_t k = 0; k <= t; ++k) total += weight[k] = std::exp(weight[k] - largest);
            lse(block, t) = static_cast<L>(largest + std::log(total));

            std::ranges::fill(sum, A(0));
            std::uint64_t const row = detail::dropout_row(s, dropout, b, h, t);
            for (std::size_t k = 0; k <= t; ++k) {
                X const* const v = &qkv(b * T + k, s.value_column(h / s.group()));
                A const        w = weight[k] * static_cast<A>(factor(row + k));
                for (std::size_t j = 0; j < D; ++j) sum[j] += w * static_cast<A>(v[j]);
            }
            for (std::size_t j = 0; j < D; ++j) out(b * T + t, h * D + j) = static_cast<Y>(sum[j] / total);
        }
    });
}

template <class X, class O, class DO, class L, class DX>
void attention_backward(arch::scalar, AttentionShape s, tensor::View<X, 2> qkv, tensor::View<O, 2> out, tensor::View<DO, 2> dout,
                        tensor::View<L, 2> lse, tensor::View<DX, 2> dqkv, AttentionDropout const& dropout) {
    using A                        = precision::accumulator<std::remove_const_t<X>>;
    std::size_t const        T     = s.sequence;
    std::size_t const        D     = s.head_size;
    std::size_t const        G     = s.group();
    A const                  scale = A(1) / std::sqrt(static_cast<A>(D));
    detail::DropFactor const factor(dropout);

    runtime::parallel_for(s.batch * s.kv_heads, 3 * G * T * T * D, [&](std::size_t block) {
        std::size_t const     b  = block / s.kv_heads;
        std::size_t const     g  = block % s.kv_heads;
        std::size_t const     kc = s.key_column(g);
        std::size_t const     vc = s.value_column(g);
        runtime::ScratchFrame frame;
        auto const            dk = frame.template take<A>(T * D);
        auto const            dv = frame.template take<A>(T * D);
        auto const            dq = frame.template take<A>(D);
        std::ranges::fill(dk, A(0));
        std::ranges::fill(dv, A(0));
        for (std::size_t h = g * G; h < (g + 1) * G; ++h) {
            for (std::size_t t = 0; t < T; ++t) {
                std::size_t const   n   = b * T + t;
                X const* const      q   = &qkv(n, h * D);
                DO const* const     d   = &dout(n, h * D);
                A const             dot = detail::dot<A>(d, &out(n, h * D), D);  // sum over keys of P * dP
                std::uint64_t const row = detail::dropout_row(s, dropout, b, h, t);
                std::ranges::fill(dq, A(0));
                for (std::size_t k = 0; k <= t; ++k) {
                    X const* const key    = &qkv(b * T + k, kc);
                    A const        p      = std::exp(scale * detail::dot<A>(q, key, D) - static_cast<A>(lse(b * s.heads + h, t)));
                    A const        f      = static_cast<A>(factor(row + k));
                    A const        dp     = f * detail::dot<A>(d, &qkv(b * T + k, vc), D);
                    A const        dscore = scale * p * (dp - dot);
                    for (std::size_t j = 0; j < D; ++j) {
                        dv[k * D + j] += f * p * static_cast<A>(d[j]);
                        dk[k * D + j] += dscore * static_cast<A>(q[j]);
                        dq[j] += dscore * static_cast<A>(key[j]);
                    }
                }
                for (std::size_t j = 0; j < D; ++j) dqkv(n, h * D + j) = static_cast<DX>(dq[j]);
            }
        }
        for (std::size_t t = 0; t < T; ++t) {
            for (std::size_t j = 0; j < D; ++j) {
                dqkv(b * T + t, kc + j) = static_cast<DX>(dk[t * D + j]);
                dqkv(b * T + t, vc + j) = static_cast<DX>(dv[t * D + j]);
            }
        }
    });
}

}  // namespace lockstep::kernel
