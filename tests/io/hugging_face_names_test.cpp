#include <doctest/doctest.h>

#include <set>

#include "../folder.hpp"
#include "lockstep/io/hugging_face_names.hpp"
#include "units.hpp"

namespace hugging_face_names_test {

using namespace lockstep;
using namespace lockstep::io;

using Shape = std::vector<std::uint64_t>;

HfTensor only(state::ModelSizes const& sizes, std::string_view parameter) {
    auto const tensors = hugging_face_tensors(sizes, parameter);
    REQUIRE(tensors.size() == 1);
    return tensors[0];
}

TEST_CASE("the four matrices of a gpt2 block are transposed in the file, and nothing else is") {
    auto const            sizes = test::gpt2_sizes();
    std::set<std::string> transposed;
    std::size_t           count = 0;
    for (auto const& unit : test::units(sizes))
        for (auto const& parameter : unit.parameters) {
            HfTensor const tensor = only(sizes, parameter.name);
            CHECK(tensor.rows() == parameter.rows);
            CHECK(tensor.columns == parameter.columns);
            CHECK(tensor.dimensions == parameter.dimensions);
            if (tensor.transposed) transposed.insert(tensor.name);
            ++count;
        }
    CHECK(count == 4 + 2 * 12);
    CHECK(transposed == std::set<std::string>{"transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_proj.weight",
                                              "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_proj.weight",
                                              "transformer.h.1.attn.c_attn.weight", "transformer.h.1.attn.c_proj.weight",
                                              "transformer.h.1.mlp.c_fc.weight", "transformer.h.1.mlp.c_proj.weight"});
    CHECK(only(sizes, "h.1.attn.c_attn.weight").shape() == Shape{12, 36});
    CHECK(only(sizes, "h.1.mlp.c_proj.weight").shape() == Shape{20, 12});
    CHECK(only(sizes, "h.1.ln_2.bias").shape() == Shape{12});
    CHECK(only(sizes, "wte").name == "transformer.wte.weight");
    CHECK(only(sizes, "ln_f.bias").name == "transformer.ln_f.bias");
}

TEST_CASE("the fused matrices of a llama block are rows of several tensors") {
    auto const sizes = test::llama_sizes();
    auto const qkv   = hugging_face_tensors(sizes, "h.1.self_attn.qkv.weight");
    REQUIRE(qkv.size() == 3);
    CHECK(qkv[0].name == "model.layers.1.self_attn.q_proj.weight");
    CHECK(qkv[0].shape() == Shape{16, 16});
    CHECK(qkv[1].name == "model.layers.1.self_attn.k_proj.weight");
    CHECK(qkv[1].shape() == Shape{8, 16});
    CHECK(qkv[1].row_begin == 16);
    CHECK(qkv[2].name == "model.layers.1.self_attn.v_proj.weight");
    CHECK(qkv[2].row_begin == 24);
    CHECK(qkv[2].row_end == 32);
    auto const mlp = hugging_face_tensors(sizes, "h.0.mlp.gate_up.weight");
    REQUIRE(mlp.size() == 2);
    CHECK(mlp[0].name == "model.layers.0.mlp.gate_proj.weight");
    CHECK(mlp[1].name == "model.layers.0.mlp.up_proj.weight");
    CHECK(mlp[1].row_begin == 24);
    CHECK(only(sizes, "lm_head").name == "lm_head.weight");
    CHECK(only(sizes, "embed_tokens").name == "model.embed_tokens.weight");
    CHECK(only(sizes, "norm.weight").name == "model.norm.weight");
    CHECK(only(sizes, "h.0.mlp.down_proj.weight").shape() == Shape{16, 24});
}

TEST_CASE("each tensor of the file belongs to one parameter, and the rows of a parameter are covered once") {
    for (auto const& sizes : {test::gpt2_sizes(), test::llama_sizes()}) {
        std::set<std::string> names;
        for (auto const& unit : test::units(sizes))
            for (auto const& parameter : unit.parameters) {
                std::size_t row = 0;
                for (HfTensor const& tensor : hugging_face_tensors(sizes, parameter.name)) {
                    CHECK(names.insert(tensor.name).second);
                    CHECK(tensor.row_begin == row);
                    row = tensor.row_end;
                }
                CHECK(row == parameter.rows);
            }
    }
}

TEST_CASE("a parameter that the files do not know is refused") {
    for (char const* name : {"h.2.ln_1.weight", "h.0.wte", "ln_1.weight", "h.0.", "h.0", "h.", "h.x.ln_1.weight", "h.-1.ln_1.weight",
                             "h.99999999999999999999.ln_1.weight", "norm.weight", ""}) {
        CAPTURE(name);
        CHECK(test::refusal([&] { hugging_face_tensors(test::gpt2_sizes(), name); }) ==
              sentence("parameter ", name, " has no Hugging Face name in a gpt2 model of 2 layers"));
    }
}

}  // namespace hugging_face_names_test
