// How gradients come about: y = x W + b, loss = mean(y^2), and the gradients of W, b and x against their closed form.
// Then: gradients add up over backward passes, and what zeroing them changes.
//
// There is no tape. A module has forward beside backward and keeps what it needs in between in a struct, so the graph of a
// composition is a type, and the chain rule is its list of modules read from the end.
//
// Legend: N rows of x, I in, O out.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/nn/linear.hpp"
#include "lockstep/tensor/arena_storage.hpp"

namespace ls = lockstep;
using ls::nn::View;
using Pass = ls::nn::Pass<float, ls::tensor::ArenaStorage>;

namespace {

constexpr std::size_t N = 64, I = 1024, O = 4096;

/// The loss is a module too, at the end of the list: it keeps y, and its backward starts the chain with 2 y / (N O).
struct MeanOfSquares {
    View<float, 2> y;  // (N,O)

    double forward(View<float, 2> input) {
        y          = input;
        double sum = 0;
        for (std::size_t n = 0; n < y.extent(0); ++n)  // rows may lie apart
            for (float value : y.row(n)) sum += static_cast<double>(value) * static_cast<double>(value);
        return sum / static_cast<double>(y.size());
    }
    View<float, 2> backward(Pass& pass) const {
        auto dy = pass.activation(y.extent(0), y.extent(1));  // (N,O)
        for (std::size_t n = 0; n < y.extent(0); ++n)
            for (std::size_t o = 0; o < y.extent(1); ++o) dy(n, o) = 2.0f * y(n, o) / static_cast<float>(y.size());
        return dy;
    }
};

/// The closed form in double, by plain loops. W is stored [out, in], as all matrices of the library: a row of W makes one column
/// of y, so y[n][o] = sum over i of x[n][i] W[o][i], plus b[o]; in the notation of the title, its W is this one transposed.
struct ClosedForm {
    std::vector<double> dW, db, dx;  // (O,I), (O), (N,I)
    double              loss = 0;

    ClosedForm(float const* x, float const* W, float const* b) : dW(O * I), db(O), dx(N * I) {
        std::vector<double> terms(I);
        for (std::size_t n = 0; n < N; ++n)
            for (std::size_t o = 0; o < O; ++o) {
                float const *xn = x + n * I, *Wo = W + o * I;
                double       y = static_cast<double>(b[o]);
                for (std::size_t i = 0; i < I; ++i) y += static_cast<double>(xn[i]) * static_cast<double>(Wo[i]);
                loss += y * y / static_cast<double>(N * O);
                double const dy = 2 * y / static_cast<double>(N * O);                                  // d loss / d y
                db[o] += dy;                                                                           // db = sum of dy over n
                for (std::size_t i = 0; i < I; ++i) dW[o * I + i] += dy * static_cast<double>(xn[i]);  // dW = dy^T x
                for (std::size_t i = 0; i < I; ++i) dx[n * I + i] += dy * static_cast<double>(Wo[i]);  // dx = dy W
            }
    }
};

bool all_right = true;

/// The largest deviation from `times` the expected gradient, relative to its largest element.
void compare(char const* what, float const* found, std::vector<double> const& expected, double times = 1) {
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        worst   = std::max(worst, std::abs(static_cast<double>(found[i]) - times * expected[i]));
        largest = std::max(largest, std::abs(times * expected[i]));
    }
    bool const right = worst <= 1e-5 * largest;
    all_right        = all_right && right;
    std::printf("  %-3s largest element %.3e, largest deviation from %gx the closed form %.1e: %s\n", what, largest, times, worst,
                right ? "right" : "WRONG");
}

/// The rows of an activation one after another: in memory they may lie apart.
std::vector<float> packed(View<float, 2> view) {
    std::vector<float> values;
    for (std::size_t n = 0; n < view.extent(0); ++n) values.insert(values.end(), view.row(n).begin(), view.row(n).end());
    return values;
}

}  // namespace

int main() {
    // A module declares its parameters; the unit's table says where each lies in one flat buffer.
    ls::nn::Linear      linear{.name = "linear", .in = I, .out = O};
    ls::state::Unit     unit{.name = "lesson", .parameters = {}};
    ls::nn::Declaration declaration{unit};
    linear.declare(declaration);

    std::vector<float> weights(unit.size), gradients(unit.size), input(N * I);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(0.02 * ls::random_normal({.seed = 1}, i));
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(ls::random_normal({.seed = 2}, i));
    std::printf("y = x W + b with x (%zu,%zu), W (%zu,%zu): %zu parameters in one buffer\n", N, I, I, O, weights.size());

    // A pass is all that a module sees: weights, gradients, and a workspace for activations.
    ls::tensor::ArenaStorage::Workspace workspace;
    Pass                                pass;
    pass.workspace = &workspace;
    pass.unit      = &unit;
    pass.weights   = weights;
    pass.gradients = gradients;

    View<float, 2> const         x{input.data(), {N, I}};
    ls::nn::Linear::Saved<float> saved;
    MeanOfSquares                loss;

    // Forward, first to last; backward, last to first. Gradients of parameters are added to the buffer, that of x is returned.
    auto const   forward  = [&] { return loss.forward(linear.forward(pass, x, saved)); };
    auto const   backward = [&] { return linear.backward(pass, loss.backward(pass), saved); };
    float* const W        = gradients.data() + unit.parameters[linear.weight_index].offset;
    float* const b        = gradients.data() + unit.parameters[linear.bias_index].offset;

    double const     found = forward();
    auto const       dx    = backward();  // (N,I)
    ClosedForm const expected(x.data(), weights.data() + unit.parameters[linear.weight_index].offset,
                              weights.data() + unit.parameters[linear.bias_index].offset);
    std::printf("\nloss %.6f, in closed form %.6f\n", found, expected.loss);
    all_right = all_right && std::abs(found - expected.loss) < 1e-5 * expected.loss;
    compare("dW", W, expected.dW);
    compare("db", b, expected.db);
    compare("dx", packed(dx).data(), expected.dx);

    std::printf("\na second forward and backward without zeroing: gradients of parameters add up, that of x is new\n");
    forward();
    auto const again = backward();  // (N,I)
    compare("dW", W, expected.dW, 2);
    compare("db", b, expected.db, 2);
    compare("dx", packed(again).data(), expected.dx);
    std::printf("  That is how micro-batches make one batch: the trainer scales each by 1/N and lets them add up.\n");

    std::printf("\nzeroed, then once more: the past is forgotten\n");
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    forward();
    backward();
    compare("dW", W, expected.dW);
    compare("db", b, expected.db);
    return all_right ? 0 : 1;
}
