// Whole blocks of both architectures at odd sizes, and recomputation of a block with dropout.

#include <doctest/doctest.h>

#include <algorithm>

#include "lockstep/nn/gpt2.hpp"
#include "lockstep/nn/gradient_check.hpp"
#include "lockstep/nn/llama.hpp"

namespace blocks_test {

using namespace lockstep;
using namespace lockstep::nn;

constexpr state::ModelSizes gpt2{.layers = 2, .heads = 3, .kv_heads = 3, .dim = 15, .ffn = 7, .vocab = 11, .sequence = 9};
constexpr state::ModelSizes llama{.arch     = state::Architecture::llama,
                                  .layers   = 2,
                                  .heads    = 4,
                                  .kv_heads = 2,
                                  .dim      = 24,
                                  .ffn      = 5,
                                  .vocab    = 11,
                                  .sequence = 9,
                                  .tied     = false};

template <class Block>
void check(Block const& block, std::size_t columns) {
    GradientCheck const result = check_gradients(block, {.batch = 2, .sequence = 5, .columns = columns, .spread = 0.3});
    CAPTURE(result.where);
    CHECK(result.worst < 2e-7);
    CHECK(result.fault == "");
}

struct Gradients {
    std::vector<float> y, dx, weights;
    bool               operator==(Gradients const&) const = default;
};

/// Forward and backward of one block in float.
template <class Block>
Gradients run(Block block, std::size_t columns) {
    state::Unit unit{.name = "u", .parameters = {}};
    Declaration declaration(unit);
    block.declare(declaration);
    std::vector<float> weights(unit.size), gradients(unit.size);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(0.3 * random_normal({1, 2, 3}, i));
    tensor::ArenaStorage::Workspace   workspace;
    Pass<float, tensor::ArenaStorage> pass;
    pass.workspace = &workspace;
    pass.unit      = &unit;
    pass.weights   = weights;
    pass.gradients = gradients;
    pass.batch     = 3;
    pass.sequence  = 5;
    pass.seed      = 7;
    auto const x   = pass.activation(15, columns);
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(random_normal({4, 5, 6}, i));
    Saved<Block, float> saved;
    auto const          y  = block.forward(pass, x, saved);
    auto const          dy = pass.activation(15, columns);
    for (std::size_t i = 0; i < dy.size(); ++i) dy.data()[i] = static_cast<float>(random_normal({7, 8, 9}, i));
    auto const dx = block.backward(pass, dy, saved);
    return {{y.flat().begin(), y.flat().end()}, {dx.flat().begin(), dx.flat().end()}, gradients};
}

TEST_CASE("a block of gpt2 is differentiated right, with dropout too") {
    for (float const dropout : {0.0f, 0.2f}) check(Gpt2Architecture::block(gpt2, {.dropout = dropout}), gpt2.dim);
}

TEST_CASE("a block of llama is differentiated right, with dropout too") {
    for (float const dropout : {0.0f, 0.2f}) check(LlamaArchitecture::block(llama, {.dropout = dropout}), llama.dim);
}

TEST_CASE("TRAPS 30: a block recomputed with dropout has the same gradients, bit for bit") {
    auto       block = Gpt2Architecture::block(gpt2, {.dropout = 0.2f});
    auto const kept  = run(Recompute<decltype(block)>{block, false}, gpt2.dim),
               again = run(Recompute<decltype(block)>{block, true}, gpt2.dim);
    CHECK(kept == again);
    CHECK(run(Gpt2Architecture::block(gpt2, {}), gpt2.dim).y != kept.y);  // dropout did something
    auto other = LlamaArchitecture::block(llama, {.dropout = 0.2f});
    CHECK(run(Recompute<decltype(other)>{other, false}, llama.dim) == run(Recompute<decltype(other)>{other, true}, llama.dim));
}

TEST_CASE("a model lists the root and its blocks, with distinct names and random numbers, ties where gpt2 does") {
    Gpt2<tensor::ArenaStorage> const  tied(gpt2);
    Llama<tensor::ArenaStorage> const untied(llama);
    CHECK(tied.units().size() == 3);
    CHECK(tied.units()[0].root);
    CHECK_FALSE(tied.units()[1].root);
    CHECK(tied.units()[0].parameters[0].uses == 2);
    CHECK(untied.units()[0].parameters[0].uses == 1);
    for (auto const* units : {&tied.units(), &untied.units()}) {
        std::vector<std::string>   names;
        std::vector<std::uint32_t> purposes;
        for (state::Unit const& unit : *units)
            for (state::Parameter const& p : unit.parameters) {
                names.push_back(p.name);
                purposes.push_back(p.purpose);
                CHECK(p.decays == (p.dimensions == 2));
            }
        std::sort(names.begin(), names.end());
        std::sort(purposes.begin(), purposes.end());
        CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
        CHECK(std::adjacent_find(purposes.begin(), purposes.end()) == purposes.end());
    }
}

}  // namespace blocks_test
