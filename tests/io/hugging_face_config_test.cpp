#include <doctest/doctest.h>

#include <algorithm>

#include "../folder.hpp"
#include "lockstep/io/hugging_face_config.hpp"
#include "units.hpp"

namespace hugging_face_config_test {

using namespace lockstep;
using namespace lockstep::io;
using test::Folder;
using test::mentions;
using test::refusal;

Json gpt2_json() { return Json::parse(config_text(test::gpt2_sizes())); }
Json llama_json() { return Json::parse(config_text(test::llama_sizes())); }

/// The config with one key changed; null removes it.
Json with(Json json, std::string const& key, Json const& value) {
    json[key] = value;
    return json;
}
Json without(Json json, std::string const& key) {
    json.erase(key);
    return json;
}

struct Refused {
    Json        json;
    std::string says;
};

TEST_CASE("what is written is read back, for both architectures") {
    Folder const folder;
    auto         big = test::llama_sizes();
    big.norm_eps     = 3e-6;
    big.vocab        = 2;
    for (auto const& sizes : {test::gpt2_sizes(), test::llama_sizes(), big})
        CHECK(read_config(folder.write("config.json", config_text(sizes))) == sizes);
}

TEST_CASE("a gpt2 config says what transformers would otherwise take from defaults") {
    Json const json = gpt2_json();
    CHECK(json.at("model_type") == "gpt2");
    CHECK(json.at("architectures") == Json::array({"GPT2LMHeadModel"}));
    for (char const* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) CHECK(json.at(key).dump() == "0.0");
    for (char const* key : {"bos_token_id", "eos_token_id"}) CHECK(json.at(key) == 16);
    CHECK(json.at("n_inner") == 20);
    CHECK(json.at("n_ctx") == 9);
    CHECK(json.at("layer_norm_epsilon") == 1e-5);
    CHECK(json.at("tie_word_embeddings") == true);
    CHECK(json.at("torch_dtype") == "float32");
    CHECK(Json::parse(config_text(test::gpt2_sizes(), Dtype::bf16)).at("torch_dtype") == "bfloat16");
}

TEST_CASE("a llama config has the rotation for transformers 4 and 5, and tokens inside the vocabulary") {
    Json const json = llama_json();
    CHECK(json.at("architectures") == Json::array({"LlamaForCausalLM"}));
    CHECK(json.at("rope_theta") == 5000.0);
    CHECK(json.at("rope_parameters") == Json({{"rope_type", "default"}, {"rope_theta", 5000.0}}));
    CHECK(json.at("head_dim") == 4);
    CHECK(json.at("tie_word_embeddings") == false);
    CHECK(json.at("bos_token_id") == 1);
    CHECK(json.at("eos_token_id") == 2);
    auto sizes  = test::llama_sizes();
    sizes.vocab = 2;
    CHECK(Json::parse(config_text(sizes)).at("eos_token_id") == 1);
}

TEST_CASE("configs as others write them are read: nulls, absent keys, keys of no concern") {
    Folder const folder;
    auto const   gpt2 = folder.write(
          "gpt2", R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 50256,
        "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768,
        "n_head": 12, "n_layer": 12, "n_inner": null, "resid_pdrop": 0.1, "summary_activation": null, "summary_use_proj": true,
        "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257})");
    CHECK(read_config(gpt2) ==
          state::ModelSizes{.layers = 12, .heads = 12, .kv_heads = 12, .dim = 768, .ffn = 3072, .vocab = 50257, .sequence = 1024});
    auto const llama =
        folder.write("llama", R"({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "max_position_embeddings": 2048,
        "num_attention_heads": 32, "num_hidden_layers": 22, "num_key_value_heads": 4, "rms_norm_eps": 1e-05, "rope_scaling": null, "vocab_size": 32000,
        "tie_word_embeddings": false, "use_cache": true, "pretraining_tp": 1, "head_dim": null})");
    CHECK(read_config(llama) == state::ModelSizes{.arch     = state::Architecture::llama,
                                                  .layers   = 22,
                                                  .heads    = 32,
                                                  .kv_heads = 4,
                                                  .dim      = 2048,
                                                  .ffn      = 5632,
                                                  .vocab    = 32000,
                                                  .sequence = 2048,
                                                  .tied     = false});
    auto json     = without(without(llama_json(), "rope_theta"), "num_key_value_heads");
    auto want     = test::llama_sizes();
    want.kv_heads = want.heads;
    CHECK(read_config(folder.write("5", json.dump())) == want);
    want.rope_theta = 10000;
    CHECK(read_config(folder.write("0", without(json, "rope_parameters").dump())) == want);
    want.norm_eps = 1e-6;
    CHECK(read_config(folder.write("e", without(without(json, "rope_parameters"), "rms_norm_eps").dump())) == want);
}

TEST_CASE("what is missing, of another type, out of range or not supported is refused by name") {
    std::vector<Refused> const cases{
        {with(gpt2_json(), "model_type", "gpt_neo"), "\"model_type\" must be gpt2 or llama, found gpt_neo"},
        {with(gpt2_json(), "model_type", 7), "\"model_type\" must be a string, found 7"},
        {without(gpt2_json(), "model_type"), "\"model_type\" must be a string, found nothing"},
        {without(gpt2_json(), "n_layer"), "\"n_layer\" must be an unsigned integer, found nothing"},
        {with(gpt2_json(), "n_layer", nullptr), "\"n_layer\" must be an unsigned integer, found null"},
        {with(gpt2_json(), "n_layer", 2.0), "\"n_layer\" must be an unsigned integer, found 2.0"},
        {with(gpt2_json(), "n_layer", -2), "\"n_layer\" must be an unsigned integer, found -2"},
        {with(gpt2_json(), "n_layer", "2"), "\"n_layer\" must be an unsigned integer, found \"2\""},
        {with(gpt2_json(), "n_layer", 0), "layers must be from 1 to 65536, found 0"},
        {with(gpt2_json(), "n_layer", 2147483647), "layers must be from 1 to 65536, found 2147483647"},
        {with(with(gpt2_json(), "n_embd", 1572864), "n_inner", 2147483647), "a model must have at most 2^48 parameters, found "},
        {with(gpt2_json(), "vocab_size", 18446744073709551615u), "vocab must be from 1 to 2147483647, found 18446744073709551615"},
        {with(with(gpt2_json(), "n_embd", 9223372036854775807u), "n_inner", nullptr), "\"n_embd\" must be at most 2147483647"},
        {with(gpt2_json(), "n_head", 5), "dim must be a multiple of heads, found dim 12 and 5 heads"},
        {with(gpt2_json(), "n_head", 0), "heads must be from 1"},
        {with(gpt2_json(), "activation_function", "gelu"), "\"activation_function\" must be gelu_new, found gelu"},
        {with(gpt2_json(), "tie_word_embeddings", false), "\"tie_word_embeddings\" must be true, found false"},
        {with(gpt2_json(), "tie_word_embeddings", "yes"), "\"tie_word_embeddings\" must be true or false, found \"yes\""},
        {with(gpt2_json(), "scale_attn_weights", false), "\"scale_attn_weights\" must be true, found false"},
        {with(gpt2_json(), "scale_attn_by_inverse_layer_idx", true), "\"scale_attn_by_inverse_layer_idx\" must be false, found true"},
        {with(gpt2_json(), "add_cross_attention", true), "\"add_cross_attention\" must be false, found true"},
        {with(gpt2_json(), "layer_norm_epsilon", 0), "the epsilon of the norms must be between 0 and 1, found 0"},
        {with(gpt2_json(), "layer_norm_epsilon", -1e-5), "the epsilon of the norms must be between 0 and 1"},
        {with(gpt2_json(), "layer_norm_epsilon", "1e-5"), "\"layer_norm_epsilon\" must be a number, found \"1e-5\""},
        {with(gpt2_json(), "quantization_config", Json::object()), "\"quantization_config\" must be absent"},
        {without(llama_json(), "intermediate_size"), "\"intermediate_size\" must be an unsigned integer, found nothing"},
        {with(llama_json(), "hidden_act", "gelu"), "\"hidden_act\" must be silu, found gelu"},
        {with(llama_json(), "attention_bias", true), "\"attention_bias\" must be false, found true"},
        {with(llama_json(), "mlp_bias", true), "\"mlp_bias\" must be false, found true"},
        {with(llama_json(), "tie_word_embeddings", true), "\"tie_word_embeddings\" must be false, found true"},
        {with(llama_json(), "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}),
         "\"rope_scaling\" must have type default, found linear"},
        {with(llama_json(), "rope_scaling", {{"factor", 2.0}}), "\"rope_scaling\" must not scale"},
        {with(llama_json(), "rope_scaling", 2), "\"rope_scaling\" must be an object, found 2"},
        {with(llama_json(), "rope_parameters", {{"rope_type", "llama3"}, {"rope_theta", 1e4}}),
         "\"rope_parameters\" must have rope_type default, found llama3"},
        {with(llama_json(), "rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}),
         "\"rope_parameters\" must rotate whole heads"},
        {with(llama_json(), "partial_rotary_factor", 0.5), "\"partial_rotary_factor\" must be 1, which rotates whole heads, found 0.5"},
        {with(llama_json(), "rope_parameters", {{"rope_theta", 0}}), "rope theta must be at least 1, found 0"},
        {with(llama_json(), "rope_theta", "x"), "\"rope_theta\" must be a number, found \"x\""},
        {with(llama_json(), "head_dim", 8), "\"head_dim\" must be hidden_size / num_attention_heads = 4, found 8"},
        {with(llama_json(), "num_key_value_heads", 3), "heads must be a multiple of kv-heads, found 4 heads and 3 kv-heads"},
        {with(llama_json(), "num_key_value_heads", 0), "kv-heads must be from 1"},
        {with(with(llama_json(), "hidden_size", 12), "head_dim", nullptr), "dim / heads must be even, found 12 / 4 = 3"},
        {Json::array(), "expected a JSON object, found []"},
    };
    Folder const folder;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        auto const        path = folder.write(sentence("config", i, ".json"), cases[i].json.dump());
        std::string const said = refusal([&] { read_config(path); });
        CAPTURE(said);
        CAPTURE(cases[i].says);
        CHECK(said.starts_with(path.string() + ": "));
        CHECK(mentions(said, cases[i].says));
    }
    CHECK(mentions(refusal([&] { read_config(folder.write("c", R"({"model_type":"gpt2","model_type":"llama"})")); }),
                   "duplicate key \"model_type\""));
    CHECK(mentions(refusal([&] { read_config(folder.write("c", "")); }), "c: expected JSON"));
    CHECK(mentions(refusal([&] { read_config(folder.write("c", std::string(2 << 20, ' '))); }),
                   "c: expected at most 1048576 bytes, found 2097152"));
    CHECK(mentions(refusal([&] { read_config(folder / "absent.json"); }), "absent.json: expected a file that can be read"));
}

TEST_CASE("sizes that do not fit together have no config") {
    auto sizes  = test::gpt2_sizes();
    sizes.heads = 5;
    CHECK(mentions(refusal([&] { config_text(sizes); }), "dim must be a multiple of heads"));
}

}  // namespace hugging_face_config_test
