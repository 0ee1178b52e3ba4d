#pragma once
// One row of LayerNorm and RMSNorm, forward and backward, element by element. All arithmetic in the accumulator.

#include <cmath>
#include <cstddef>

#include "lockstep/kernel/arch/scalar_convert.hpp"

namespace lockstep::kernel::arch {

template <class A>
struct RowStatistics {
    A mean;
    A rstd;
};

/// y = (x - mean) * rstd * gamma + beta. Two passes: the mean, then the variance around it.
template <class X, class W, class Y, class A = precision::accumulator<X>>
RowStatistics<A> layernorm_row(scalar, X const* x, W const* gamma, W const* beta, double eps, Y* y, std::size_t columns) noexcept {
    auto const count = static_cast<A>(columns);
    A          sum   = 0;
    for (std::size_t c = 0; c < columns; ++c) sum += static_cast<A>(x[c]);
    A const mean   = sum / count;
    A       square = 0;
    for (std::size_t c = 0; c < columns; ++c) {
        A const centred = static_cast<A>(x[c]) - mean;
        square += centred * centred;
    }
    A const rstd = A(1) / std::sqrt(square / count + static_cast<A>(eps));
    for (std::size_t c = 0; c < columns; ++c)
        y[c] = rounded<Y>((static_cast<A>(x[c]) - mean) * rstd * static_cast<A>(gamma[c]) + static_cast<A>(beta[c]));
    return {mean, rstd};
}

/// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)), g = dy * gamma; adds dy * xhat to dgamma and dy to dbeta. dx may be dy or x.
template <class DY, class X, class W, class DX, class A = precision::accumulator<X>>
void layernorm_backward_row(scalar, DY const* dy, X const* x, W const* gamma, RowStatistics<A> row, DX* dx, A* dgamma, A* dbeta,
                            std::size_t columns) noexcept {
    A sum = 0, product = 0;
    for (std::size_t c = 0; c < columns; ++c) {
        A const d    = static_cast<A>(dy[c]);
        A const xhat = (static_cast<A>(x[c]) - row.mean) * row.rstd;
        A const g    = d * static_cast<A>(gamma[c]);
        sum += g;
        product += g * xhat;
        dgamma[c] += d * xhat;
        dbeta[c] += d;
    }
    sum /= static_cast<A>(columns);
    product /= static_cast<A>(columns);
    for (std::size_t c = 0; c < columns; ++c) {
        A const xhat = (static_cast<A>(x[c]) - row.mean) * row.rstd;
        dx[c]        = rounded<DX>(row.rstd * (static_cast<A>(dy[c]) * static_cast<A>(gamma[c]) - sum - xhat * product));
    }
}

/// y = round(x * rstd) * gamma: normalised in the accumulator, rounded to the type of x, then weighted. Returns rstd.
template <class X, class W, class Y, class A = precision::accumulator<X>>
A rmsnorm_row(scalar, X const* x, W const* gamma, double eps, Y* y, std::size_t columns) noexcept {
    A square = 0;
    for (std::size_t c = 0; c < columns; ++c) square += static_cast<A>(x[c]) * static_cast<A>(x[c]);
    A const rstd = A(1) / std::sqrt(square / static_cast<A>(columns) + static_cast<A>(eps));
    for (std::size_t c = 0; c < columns; ++c) {
        A const xhat = static_cast<A>(rounded<X>(static_cast<A>(x[c]) * rstd));
        y[c]         = rounded<Y>(xhat * static_cast<A>(gamma[c]));
    }
    return rstd;
}

/// dx = rstd * (g - xhat * mean(g * xhat)), g = dy * gamma; adds dy * round(xhat) to dgamma. dx may be dy or x.
template <class DY, class X, class W, class DX, class A = precision::accumulator<X>>
void rmsnorm_backward_row(scalar, DY const* dy, X const* x, W const* gamma, A rstd, DX* dx, A* dgamma, std::size_t columns) noexcept {
    A product = 0;
    for (std::size_t c = 0; c < columns; ++c) {
        A const d    = static_cast<A>(dy[c]);
        A const xhat = static_cast<A>(x[c]) * rstd;
        product += d * static_cast<A>(gamma[c]) * xhat;
        dgamma[c] += d * static_cast<A>(rounded<X>(xhat));
    }
    product /= static_cast<A>(columns);
    for (std::size_t c = 0; c < columns; ++c) {
        A const xhat = static_cast<A>(x[c]) * rstd;
        dx[c]        = rounded<DX>(rstd * (static_cast<A>(dy[c]) * static_cast<A>(gamma[c]) - xhat * product));
    }
}

}  // namespace lockstep::kernel::arch
