// How models start, and what their parameters are called.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lockstep/io/hugging_face_names.hpp"
#include "lockstep/nn/gpt2.hpp"
#include "lockstep/nn/llama.hpp"
#include "lockstep/tensor/arena_storage.hpp"

namespace initial_test {

using namespace lockstep;

constexpr state::ModelSizes gpt2_sizes{.layers = 3, .heads = 3, .kv_heads = 3, .dim = 12, .ffn = 20, .vocab = 11, .sequence = 7};
constexpr state::ModelSizes llama_sizes{.arch     = state::Architecture::llama,
                                        .layers   = 3,
                                        .heads    = 4,
                                        .kv_heads = 2,
                                        .dim      = 24,
                                        .ffn      = 10,
                                        .vocab    = 11,
                                        .sequence = 7,
                                        .tied     = false};

nn::Gpt2<tensor::ArenaStorage> const  gpt2(gpt2_sizes);
nn::Llama<tensor::ArenaStorage> const llama(llama_sizes);

/// Every parameter is made of tensors of a file that cover its rows and have its columns; returns the names of all.
std::set<std::string> names_in_files(state::ModelSizes const& sizes, std::vector<state::Unit> const& units) {
    std::set<std::string> names;
    for (state::Unit const& unit : units)
        for (state::Parameter const& parameter : unit.parameters) {
            CAPTURE(parameter.name);
            std::size_t row = 0;
            for (io::HfTensor const& tensor : io::hugging_face_tensors(sizes, parameter.name)) {
                CHECK(tensor.row_begin == row);
                CHECK(tensor.columns == parameter.columns);
                CHECK(tensor.dimensions == parameter.dimensions);
                CHECK(names.insert(tensor.name).second);
                row = tensor.row_end;
            }
            CHECK(row == parameter.rows);
        }
    return names;
}

/// What the initial values of a parameter must be.
void check_initial(state::Parameter const& parameter, std::size_t layers) {
    CAPTURE(parameter.name);
    bool const matrix     = parameter.dimensions == 2;
    bool const projection = parameter.name.ends_with("c_proj.weight") || parameter.name.ends_with("o_proj.weight") ||
                            parameter.name.ends_with("down_proj.weight");
    double const deviation = !matrix ? 0 : projection ? 0.02 / std::sqrt(2.0 * static_cast<double>(layers)) : 0.02;
    CHECK(double{parameter.initial.deviation} == doctest::Approx(deviation).epsilon(1e-6));
    CHECK(parameter.initial.mean == (!matrix && parameter.name.ends_with(".weight") ? 1.0f : 0.0f));  // a norm starts as the identity
    CHECK(parameter.decays == matrix);
}

TEST_CASE("matrices start with deviation 0.02, projections into the residual stream with 0.02 / sqrt(2 layers), norms as the identity") {
    for (auto const* units : {&gpt2.units(), &llama.units()})
        for (state::Unit const& unit : *units)
            for (state::Parameter const& parameter : unit.parameters) check_initial(parameter, 3);
}

TEST_CASE("no two parameters start from the same random numbers") {
    for (auto const* units : {&gpt2.units(), &llama.units()}) {
        std::set<std::uint32_t> purposes;
        std::size_t             parameters = 0;
        for (state::Unit const& unit : *units)
            for (state::Parameter const& parameter : unit.parameters) ++parameters, purposes.insert(parameter.purpose);
        CHECK(purposes.size() == parameters);
        CHECK(*purposes.rbegin() < 0x40000000u);  // nor from those of activations
    }
}

TEST_CASE("units are the root and the blocks, each a table of its own") {
    for (auto const* units : {&gpt2.units(), &llama.units()}) {
        REQUIRE(units->size() == 4);
        CHECK((*units)[0].name == "root");
        CHECK((*units)[3].name == "h.2");
        for (state::Unit const& unit : *units) {
            CHECK(unit.root == (unit.name == "root"));
            std::size_t offset = 0;
            for (state::Parameter const& parameter : unit.parameters) {
                CHECK(parameter.offset == offset);
                CHECK(parameter.name.starts_with("h.") == !unit.root);
                offset += parameter.size();
            }
            CHECK(unit.size == offset);
        }
    }
    std::size_t const C = 12, F = 20;
    CHECK(state::element_count(gpt2.units()) == (11 + 7) * C + 2 * C + 3 * (4 * C * C + 4 * C + 2 * C * F + F + C + 4 * C));
    CHECK(state::element_count(llama.units()) == 2 * 11 * 24 + 24 + 3 * (24 * (24 + 2 * 12) + 24 * 24 + 3 * 24 * 10 + 2 * 24));
}

TEST_CASE("each parameter has its tensors in Hugging Face files, and no two the same") {
    auto const ours = names_in_files(gpt2_sizes, gpt2.units());
    CHECK(ours.size() == 4 + 3 * 12);
    for (char const* name : {"transformer.wte.weight", "transformer.wpe.weight", "transformer.ln_f.bias",
                             "transformer.h.2.attn.c_attn.weight", "transformer.h.0.mlp.c_proj.bias"})
        CHECK(ours.count(name) == 1);
    auto const theirs = names_in_files(llama_sizes, llama.units());
    CHECK(theirs.size() == 3 + 3 * 9);
    for (char const* name : {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight", "model.layers.1.self_attn.k_proj.weight",
                             "model.layers.2.mlp.up_proj.weight"})
        CHECK(theirs.count(name) == 1);
}

TEST_CASE("the tied table is used twice, the untied one once") {
    auto const uses = [](auto const& model, std::string_view name) {
        for (state::Parameter const& parameter : model.units()[0].parameters)
            if (parameter.name == name) return parameter.uses;
        return 0u;
    };
    CHECK(uses(gpt2, "wte") == 2);
    CHECK(uses(gpt2, "wpe") == 1);
    CHECK(uses(llama, "embed_tokens") == 1);
    CHECK(uses(llama, "lm_head") == 1);
}

}  // namespace initial_test
