#include "lockstep/plan/flops.hpp"

#include <doctest/doctest.h>

#include "lockstep/nn/gpt2.hpp"
#include "lockstep/nn/llama.hpp"
#include "lockstep/tensor/arena_storage.hpp"

namespace flops_test {

using namespace lockstep;

constexpr state::ModelSizes llama_sizes{.arch     = state::Architecture::llama,
                                        .layers   = 3,
                                        .heads    = 6,
                                        .kv_heads = 2,
                                        .dim      = 60,
                                        .ffn      = 100,
                                        .vocab    = 101,
                                        .sequence = 37,
                                        .tied     = false};
constexpr state::ModelSizes gpt2_sizes{.layers = 3, .heads = 3, .kv_heads = 3, .dim = 60, .ffn = 100, .vocab = 101, .sequence = 37};

template <class Model>
std::uint64_t matrices(Model const& model, std::initializer_list<std::string_view> tables) {
    std::uint64_t count = 0;
    for (state::Unit const& unit : model.units())
        for (state::Parameter const& p : unit.parameters)
            if (p.dimensions == 2 && std::find(tables.begin(), tables.end(), p.name) == tables.end()) count += p.elements();
    return count;
}

TEST_CASE("the count of parameters is the model's, at any sizes") {
    nn::Gpt2<tensor::ArenaStorage> const  gpt2(gpt2_sizes);
    nn::Llama<tensor::ArenaStorage> const llama(llama_sizes);
    CHECK(plan::parameter_count(gpt2_sizes) == state::element_count(gpt2.units()));
    CHECK(plan::parameter_count(llama_sizes) == state::element_count(llama.units()));
    CHECK(plan::parameter_count(nn::gpt2_124m) == 124439808);  // as published
    CHECK(state::element_count(nn::Gpt2<tensor::ArenaStorage>(nn::gpt2_124m).units()) == 124439808);
    nn::Gpt2<tensor::ArenaStorage> const padded(gpt2_sizes, {.layout = state::Layout{32, 32}});
    CHECK(plan::parameter_count(gpt2_sizes) == state::element_count(padded.units()));  // padding does not count
}

TEST_CASE("parameters that multiply are the matrices; tables that are only looked up do not, a tied head does") {
    nn::Gpt2<tensor::ArenaStorage> const  gpt2(gpt2_sizes);
    nn::Llama<tensor::ArenaStorage> const llama(llama_sizes);
    CHECK(plan::matmul_parameters(gpt2_sizes) == matrices(gpt2, {"wpe"}));
    CHECK(plan::matmul_parameters(llama_sizes) == matrices(llama, {"embed_tokens"}));
}

TEST_CASE("operations of a token are 6 N + 6 L C T") {
    CHECK(plan::flops_per_token(nn::gpt2_124m, 1024) == 6.0 * (12 * 12 * 768 * 768 + 50257 * 768) + 6.0 * 12 * 768 * 1024);
    CHECK(plan::flops_per_token(gpt2_sizes, 37) - plan::flops_per_token(gpt2_sizes, 36) == 6.0 * 3 * 60);
}

}  // namespace flops_test
