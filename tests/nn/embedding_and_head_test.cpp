// Embedding and head: known values, derivatives, a tied table, a padded vocabulary, ignored labels.

#include <doctest/doctest.h>

#include <cmath>

#include "lockstep/nn/embedding.hpp"
#include "lockstep/nn/gradient_check.hpp"
#include "lockstep/nn/head.hpp"
#include "lockstep/nn/linear.hpp"
#include "lockstep/nn/normalize.hpp"

namespace embedding_and_head_test {

using namespace lockstep;
using namespace lockstep::nn;

/// In place of a norm: x W^T without bias.
struct Projection : Linear {};

/// Embedding, norm and head over one table.
template <class Norm, class T = double>
struct Tied {
    using Storage = tensor::ArenaStorage;
    using P       = Pass<T, Storage>;

    Embedding                              embedding;
    Head<Norm>                             head;
    state::Unit                            unit{.name = "root", .parameters = {}};
    std::vector<T>                         weights = {}, gradients = {};
    std::vector<std::uint32_t>             reported        = {};
    Storage::Workspace                     workspace       = {};
    typename Embedding::template Saved<T>  saved_embedding = {};
    typename Head<Norm>::template Saved<T> saved_head      = {};
    P                                      pass            = {};

    Tied(Embedding e, Head<Norm> h, std::size_t batch, std::size_t sequence) : embedding(std::move(e)), head(std::move(h)) {
        Declaration declaration(unit);
        embedding.declare(declaration);
        head.declare(declaration, embedding.table_index);
        weights.resize(unit.size);
        gradients.resize(unit.size);
        reported.resize(unit.parameters.size());
        pass.workspace = &workspace;
        pass.unit      = &unit;
        pass.weights   = weights;
        pass.gradients = gradients;
        pass.batch     = batch;
        pass.sequence  = sequence;
        pass.sink      = {&reported,
                          [](void* object, std::size_t, ParameterIndex i) { ++(*static_cast<std::vector<std::uint32_t>*>(object))[i]; }};
    }
    Tied(Tied const&) = delete;

    double loss(std::vector<std::int32_t> const& tokens, std::vector<std::int32_t> const& labels) {
        workspace.rewind({});
        return head.loss(pass, embedding.forward(pass, std::span(tokens), saved_embedding), std::span(labels), saved_head).value();
    }
    /// The same loss, found with the gradients.
    double backward(std::vector<std::int32_t> const& tokens, std::vector<std::int32_t> const& labels, T scale) {
        workspace.rewind({});
        auto const x = embedding.forward(pass, std::span(tokens), saved_embedding);
        ExactSum   sum;
        embedding.backward(pass, head.loss_backward(pass, x, std::span(labels), scale, saved_head, sum), saved_embedding);
        return sum.value();
    }

    T&          weight(std::string_view name, std::size_t i) { return weights[offset(name) + i]; }
    T           gradient(std::string_view name, std::size_t i) { return gradients[offset(name) + i]; }
    std::size_t offset(std::string_view name) {
        for (state::Parameter const& p : unit.parameters)
            if (p.name == name) return p.offset;
        FAIL("no parameter " << name);
        return 0;
    }
};

TEST_CASE("TRAPS 15: a table that is both embedding and head gets both contributions") {
    Tied<Projection> model({"E", "", 3, 1, 2, {}}, {{Linear{"W", 2, 2, false}}, "", 3, 2}, 1, 1);
    double const     table[]{.5, -.25, .1, .2, -.3, .4}, w[]{1, .5, -.5, 2};
    for (std::size_t i = 0; i < 6; ++i) model.weight("E", i) = table[i];
    for (std::size_t i = 0; i < 4; ++i) model.weight("W.weight", i) = w[i % 2 * 2 + i / 2];  // E0 W is E0 (W^T)^T
    std::vector<std::int32_t> const token{0}, target{2};
    CHECK(model.loss(token, target) == doctest::Approx(1.4561688178).epsilon(1e-9));
    CHECK(model.backward(token, target, 1) == doctest::Approx(1.4561688178).epsilon(1e-9));
    double const expected[]{.5918079014, -1.0705701099, .1966809420, -.0786723768, -.4792951745, .1917180698};
    for (std::size_t i = 0; i < 6; ++i) CHECK(model.gradient("E", i) == doctest::Approx(expected[i]).epsilon(1e-8));
    CHECK(model.reported[0] == 2);
    CHECK(model.unit.parameters[0].uses == 2);
}

TEST_CASE("TRAPS 21: a vocabulary that is padded in memory has ln V for zero logits") {
    for (std::size_t const vocab : {3u, 16u, 17u, 50u}) {
        Tied<RmsNorm>                   model({"E", "", vocab, 1, 4, {}}, {RmsNorm{"n", 4}, "", vocab, 4}, 1, 2);
        std::vector<std::int32_t> const tokens{0, 1}, labels{2, 0};
        CHECK(model.loss(tokens, labels) == doctest::Approx(2 * std::log(static_cast<double>(vocab))).epsilon(1e-12));
        model.backward(tokens, labels, 1);
        for (double g : model.gradients) CHECK(std::isfinite(g));
    }
}

TEST_CASE("losses and gradients of tables, positions and norm against central differences, ignored labels among them") {
    std::vector<std::int32_t> const tokens{0, 3, 3, 6, 1, 0}, labels{3, ignored_label, 2, 0, ignored_label, 6};
    for (std::string const& head : {std::string(), std::string("out")})
        for (std::string const& positions : {std::string(), std::string("P")})
            for (float const dropout : {0.0f, 0.3f}) {
                Tied<LayerNorm> model({"E", positions, 7, 3, 5, {dropout}}, {LayerNorm{"n", 5}, head, 7, 5}, 2, 3);
                for (std::size_t i = 0; i < model.weights.size(); ++i)
                    model.weights[i] = 0.5 * random_normal({1, 1, 1}, i) + (i % 3 == 0 ? 0.4 : 0);
                CHECK(model.backward(tokens, labels, 0.25) == model.loss(tokens, labels));
                for (std::size_t i = 0; i < model.weights.size(); ++i) {
                    double const kept = model.weights[i], step = 1e-5;
                    model.weights[i]   = kept + step;
                    double const above = model.loss(tokens, labels);
                    model.weights[i]   = kept - step;
                    double const below = model.loss(tokens, labels);
                    model.weights[i]   = kept;
                    CHECK(model.gradients[i] == doctest::Approx(0.25 * (above - below) / (2 * step)).epsilon(1e-7).scale(1));
                }
                for (std::size_t p = 0; p < model.reported.size(); ++p) CHECK(model.reported[p] == model.unit.parameters[p].uses);
            }
}

TEST_CASE("a head works through chunks of tokens as it does through all at once") {
    std::size_t const vocab = 120000, rows = 210;
    static_assert(kernel::head_chunk(210, 120000, {}).rows == 128);
    Tied<RmsNorm, float> whole({"E", "", vocab, 1, 2, {}}, {RmsNorm{"n", 2}, "", vocab, 2}, 1, rows);
    for (std::size_t i = 0; i < whole.weights.size(); ++i) whole.weights[i] = static_cast<float>(random_normal({1, 1, 1}, i));
    std::vector<std::int32_t> tokens, labels;
    for (std::size_t n = 0; n < rows; ++n) {
        tokens.push_back(static_cast<std::int32_t>(17 * n));
        labels.push_back(n % 7 == 0 ? ignored_label : static_cast<std::int32_t>(11 * n));
    }
    double const sum = whole.loss(tokens, labels);
    CHECK(whole.backward(tokens, labels, 1) == sum);
    std::vector<float> const gradients = whole.gradients;

    double parts = 0;
    std::fill(whole.gradients.begin(), whole.gradients.end(), 0.0f);
    whole.pass.sequence = 70;
    for (std::size_t begin = 0; begin < rows; begin += 70) {
        auto const                      b = static_cast<std::ptrdiff_t>(begin);
        std::vector<std::int32_t> const some(tokens.begin() + b, tokens.begin() + b + 70),
            their(labels.begin() + b, labels.begin() + b + 70);
        parts += whole.backward(some, their, 1);
    }
    CHECK(sum == doctest::Approx(parts).epsilon(1e-6));
    float worst = 0;
    for (std::size_t i = 0; i < gradients.size(); ++i) worst = std::max(worst, std::abs(gradients[i] - whole.gradients[i]));
    CHECK(worst < 1e-4f);
}

}  // namespace embedding_and_head_test
