// Statistics, losses and weights of types that a kernel would round without being asked to.

#include "lockstep/kernel/attention.hpp"
#include "lockstep/kernel/cross_entropy.hpp"
#include "lockstep/kernel/head_loss.hpp"
#include "lockstep/kernel/normalize.hpp"

using namespace lockstep::kernel;
using lockstep::precision::bfloat16;
using Matrix  = lockstep::tensor::View<bfloat16, 2>;
using Vector  = lockstep::tensor::View<bfloat16, 1>;
using Sums    = lockstep::tensor::View<float, 1>;
using RowSums = lockstep::tensor::View<float, 2>;
using Weights = lockstep::state::Matrix<bfloat16 const>;

#if defined(ATTENTION_FORWARD)
void call(Matrix m) { attention_forward(AttentionShape{}, m, m, m); }
#elif defined(ATTENTION_BACKWARD)
void call(Matrix m) { attention_backward(AttentionShape{}, m, m, m, m, m); }
#elif defined(CROSS_ENTROPY_FORWARD)
void call(Matrix m, Vector v) { cross_entropy_forward(m, 1, {}, v, v); }
#elif defined(LAYERNORM_STATISTICS)
void call(Matrix m, Vector v) { layernorm_forward(m, v, v, 1e-5, m, v, v); }
#elif defined(LAYERNORM_WEIGHTS)
void call(Matrix m, Vector v, Sums s) { layernorm_forward(m, v, s, 1e-5, m, s, s); }
#elif defined(RMSNORM_STATISTICS)
void call(Matrix m, Vector v) { rmsnorm_forward(m, v, 1e-5, m, v); }
#elif defined(HEAD_LOSS)
void call(Matrix m, Weights w, Vector v) { head_loss(m, w, {}, v, v, {}); }
#else
void call(Matrix m, Weights w, Vector v, Sums s, RowSums r) {
    head_loss(m, w, {}, s, s, {});
    attention_forward(AttentionShape{}, m, m, r);
    attention_backward(AttentionShape{}, m, m, m, r, m);
    cross_entropy_forward(m, 1, {}, s, s);
    layernorm_forward(m, v, v, 1e-5, m, s, s);
    rmsnorm_forward(m, v, 1e-5, m, s);
}
#endif
