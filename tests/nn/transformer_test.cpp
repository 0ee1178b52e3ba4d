// Whole models: nothing depends on the layout of the weights, nor on recomputation.

#include "lockstep/nn/transformer.hpp"

#include <doctest/doctest.h>

#include "lockstep/nn/gpt2.hpp"
#include "lockstep/nn/llama.hpp"
#include "lockstep/tensor/xtensor_storage.hpp"
#include "model_run.hpp"

namespace transformer_test {

using namespace lockstep;

constexpr state::ModelSizes gpt2_sizes{.layers = 2, .heads = 3, .kv_heads = 3, .dim = 15, .ffn = 34, .vocab = 19, .sequence = 9};
constexpr state::ModelSizes llama_sizes{.arch     = state::Architecture::llama,
                                        .layers   = 2,
                                        .heads    = 4,
                                        .kv_heads = 2,
                                        .dim      = 40,
                                        .ffn      = 21,
                                        .vocab    = 37,
                                        .sequence = 9,
                                        .tied     = false};

struct Gpt2InFloat {
    using Run                                = ModelRun<nn::Gpt2<tensor::ArenaStorage>, float>;
    static constexpr state::ModelSizes sizes = gpt2_sizes;
};
struct LlamaInBfloat16 {
    using Run                                = ModelRun<nn::Llama<tensor::XtensorStorage>, precision::bfloat16>;
    static constexpr state::ModelSizes sizes = llama_sizes;
};

/// Three sequences of seven tokens, some labels ignored.
template <class Run>
void run(Run& model) {
    std::vector<std::int32_t> tokens, labels;
    for (std::int32_t i = 0; i < 21; ++i) {
        tokens.push_back(i * i % 17);
        labels.push_back(i % 5 == 2 ? ignored_label : (i * 7 + 3) % 19);
    }
    model.run(tokens, labels, 3);
}

template <class Case>
typename Case::Run run(nn::ModelOptions const& options, std::uint64_t version = 0) {
    typename Case::Run result(Case::sizes, options);
    result.version = version;
    run(result);
    return result;
}

TEST_CASE_TEMPLATE("a layout that permutes and pads the weights changes no bit of loss and gradients", Case, Gpt2InFloat, LlamaInBfloat16) {
    auto const identity = run<Case>({});
    CHECK(identity.loss > 21 * 0.5);
    CHECK(identity.padding().elements == 0);
    for (state::Layout const layout :
         {state::Layout{4, 3, state::TileOrder::columns}, state::Layout{16, 32}, state::Layout{1, 16, state::TileOrder::columns}}) {
        CAPTURE(layout.panel_rows);
        auto const permuted = run<Case>({.layout = layout});
        CHECK(permuted.loss == identity.loss);
        CHECK(permuted.gradients() == identity.gradients());
        CHECK(permuted.padding().elements > 0);
        CHECK(permuted.padding().touched == 0);
    }
}

TEST_CASE_TEMPLATE("TRAPS 30: recomputation with dropout gives the same loss and gradients bit for bit", Case, Gpt2InFloat,
                   LlamaInBfloat16) {
    auto const kept  = run<Case>({.dropout = 0.2f});
    auto const again = run<Case>({.dropout = 0.2f, .recompute = true});
    CHECK(again.loss == kept.loss);
    CHECK(again.gradients() == kept.gradients());
    CHECK(run<Case>({}).gradients() != kept.gradients());
    CHECK(run<Case>({.dropout = 0.2f}, 1).gradients() != kept.gradients());  // another version draws other masks
}

TEST_CASE("gradients of several backward passes add up") {
    Gpt2InFloat::Run twice(gpt2_sizes, {});
    run(twice);
    std::vector<float> const once = twice.gradients();
    run(twice);
    std::vector<float> const both  = twice.gradients();
    double                   worst = 0;
    for (std::size_t i = 0; i < once.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(both[i]) - 2.0 * static_cast<double>(once[i])));
    CHECK(worst < 1e-5);
    CHECK(both != once);
}

}  // namespace transformer_test
