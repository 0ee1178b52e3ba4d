#pragma once
// Attention written with whole T x T matrices in double: what the kernels are compared with.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/kernel/attention_shape.hpp"

namespace lockstep::kernel::test {

using Numbers = std::vector<double>;

struct AttentionResult {
    Numbers out;   // (B*T, H*D)
    Numbers lse;   // (B*H, T)
    Numbers dqkv;  // (B*T, (H+2K)*D)
};

inline double reference_factor(AttentionShape s, AttentionDropout const& d, std::size_t b, std::size_t h, std::size_t q, std::size_t k) {
    if (d.probability == 0) return 1;
    std::uint64_t const element = ((d.first_sample + b) * s.heads + h) * s.sequence * s.sequence + q * s.sequence + k;
    double const        p       = static_cast<double>(d.probability);
    return random_bits(d.key, element) < std::ceil(p * 0x1p32 - 0.5) ? 0 : 1 / (1 - p);
}

inline AttentionResult reference_attention(AttentionShape s, Numbers const& qkv, Numbers const& dout, AttentionDropout const& dropout) {
    std::size_t const T = s.sequence, D = s.head_size, C = s.qkv_columns(), O = s.out_columns();
    double const      scale = 1 / std::sqrt(static_cast<double>(D));
    AttentionResult   r{Numbers(s.rows() * O), Numbers(s.batch * s.heads * T), Numbers(s.rows() * C)};
    for (std::size_t b = 0; b < s.batch; ++b) {
        for (std::size_t h = 0; h < s.heads; ++h) {
            std::size_t const g = h / (s.heads / s.kv_heads);
            auto const        q = [&](std::size_t t) { return (b * T + t) * C + h * D; };
            auto const        k = [&](std::size_t t) { return (b * T + t) * C + (s.heads + g) * D; };
            auto const        v = [&](std::size_t t) { return (b * T + t) * C + (s.heads + s.kv_heads + g) * D; };
            auto const        o = [&](std::size_t t) { return (b * T + t) * O + h * D; };
            Numbers           P(T * T), M(T * T), dP(T * T);
            for (std::size_t i = 0; i < T; ++i) {
                double largest = -INFINITY, total = 0;
                for (std::size_t j = 0; j <= i; ++j) {
                    for (std::size_t d = 0; d < D; ++d) P[i * T + j] += scale * qkv[q(i) + d] * qkv[k(j) + d];
                    largest      = std::max(largest, P[i * T + j]);
                    M[i * T + j] = reference_factor(s, dropout, b, h, i, j);
                }
                for (std::size_t j = 0; j <= i; ++j) total += std::exp(P[i * T + j] - largest);
                r.lse[(b * s.heads + h) * T + i] = largest + std::log(total);
                for (std::size_t j = 0; j <= i; ++j) P[i * T + j] = std::exp(P[i * T + j] - largest) / total;
            }
            for (std::size_t i = 0; i < T; ++i)
                for (std::size_t j = 0; j <= i; ++j)
                    for (std::size_t d = 0; d < D; ++d) {
                        r.out[o(i) + d] += P[i * T + j] * M[i * T + j] * qkv[v(j) + d];
                        r.dqkv[v(j) + d] += P[i * T + j] * M[i * T + j] * dout[o(i) + d];
                        dP[i * T + j] += M[i * T + j] * dout[o(i) + d] * qkv[v(j) + d];
                    }
            for (std::size_t i = 0; i < T; ++i) {
                double mean = 0;
                for (std::size_t j = 0; j <= i; ++j) mean += P[i * T + j] * dP[i * T + j];
                for (std::size_t j = 0; j <= i; ++j)
                    for (std::size_t d = 0; d < D; ++d) {
                        double const ds = scale * P[i * T + j] * (dP[i * T + j] - mean);
                        r.dqkv[q(i) + d] += ds * qkv[k(j) + d];
                        r.dqkv[k(j) + d] += ds * qkv[q(i) + d];
                    }
            }
        }
    }
    return r;
}

}  // namespace lockstep::kernel::test
