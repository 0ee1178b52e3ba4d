#include <doctest/doctest.h>

#include <sys/resource.h>
#include <algorithm>
#include <bit>
#include <csignal>

#include "../folder.hpp"
#include "lockstep/io/hugging_face.hpp"
#include "units.hpp"

namespace hugging_face_test {

using namespace lockstep;
using namespace lockstep::io;
using test::Folder;
using test::mentions;
using test::refusal;

using Units = std::vector<state::Unit>;

void save(std::filesystem::path const& directory, state::ModelSizes const& sizes, Dtype dtype = Dtype::f32) {
    Units const units = test::units(sizes);
    save_weights(
        directory, sizes, units,
        [](std::size_t, state::Parameter const& parameter, std::span<float> values) { test::fill(parameter, values); }, dtype);
}

std::string load_fault(std::filesystem::path const& path, state::ModelSizes const& sizes) {
    Units const units = test::units(sizes);
    return refusal([&] { HuggingFaceReader(path, sizes, units); });
}

/// How many values differ from those that `save` wrote.
std::size_t differences(std::filesystem::path const& path, state::ModelSizes const& sizes, float tolerance = 0) {
    Units const units = test::units(sizes);
    std::size_t count = 0, seen = 0;
    load_weights(path, sizes, units, [&](std::size_t unit, state::Parameter const& parameter, std::span<float const> values) {
        CHECK(&parameter >= units[unit].parameters.data());
        for (std::size_t row = 0; row < parameter.rows; ++row)
            for (std::size_t column = 0; column < parameter.columns; ++column, ++seen) {
                float const want = test::value(parameter.name, row, column);
                count += !(std::abs(values[row * parameter.columns + column] - want) <= tolerance * std::abs(want));
            }
    });
    CHECK(seen == state::element_count(units));
    return count;
}

/// All tensors of a saved model once more, with other names, or without some, or with more.
template <class Rename>
void rewrite(std::filesystem::path const& from, std::filesystem::path const& to, Rename const& rename,
             std::vector<std::pair<TensorPlan, std::vector<float>>> const& more = {}) {
    SafetensorsFile const   file(from);
    std::vector<TensorPlan> plans;
    for (TensorInfo const& tensor : file.tensors())
        if (std::string const name = rename(tensor.name); !name.empty()) plans.push_back({name, tensor.dtype, tensor.shape});
    for (auto const& [plan, values] : more) plans.push_back(plan);
    SafetensorsWriter writer(to, plans);
    for (TensorInfo const& tensor : file.tensors()) {
        std::vector<float> values(tensor.elements());
        file.read(tensor.name, values);
        if (std::string const name = rename(tensor.name); !name.empty()) writer.append(name, values);
    }
    for (auto const& [plan, values] : more) {
        if (floating(plan.dtype)) writer.append(plan.name, values);
        if (plan.dtype == Dtype::u8) writer.append_exact<std::uint8_t>(plan.name, std::vector<std::uint8_t>(values.size(), 1));
    }
    writer.commit();
}

std::string same(std::string const& name) { return name; }

TEST_CASE("a saved model comes back element for element, for both architectures") {
    for (auto const& sizes : {test::gpt2_sizes(), test::llama_sizes()}) {
        Folder const folder;
        save(folder / "a/b", sizes);
        CHECK(differences(folder / "a/b", sizes) == 0);
        CHECK(differences(folder / "a/b/model.safetensors", sizes) == 0);
        CHECK(read_config(folder / "a/b/config.json") == sizes);
        CHECK(std::distance(std::filesystem::directory_iterator(folder / "a/b"), {}) == 2);
        save(folder / "a/b", sizes, Dtype::bf16);
        CHECK(differences(folder / "a/b", sizes, 0x1p-8f) == 0);
        CHECK(differences(folder / "a/b", sizes) > 0);
    }
}

TEST_CASE("the file holds what transformers expects, element for element") {
    Folder const folder;
    save(folder.path(), test::gpt2_sizes());
    SafetensorsFile const gpt2(folder / "model.safetensors");
    CHECK(gpt2.metadata().at("format") == "pt");
    CHECK(gpt2.find("lm_head.weight") == nullptr);
    std::vector<float> values(12 * 12);
    gpt2.read("transformer.h.1.attn.c_proj.weight", values);  // [in, out] and square
    bool transposed = true;
    for (std::size_t in = 0; in < 12; ++in)
        for (std::size_t out = 0; out < 12; ++out)
            transposed = transposed && values[in * 12 + out] == test::value("h.1.attn.c_proj.weight", out, in);
    CHECK(transposed);
    values.resize(17 * 12);
    gpt2.read("transformer.wte.weight", values);
    CHECK(values[16 * 12 + 3] == test::value("wte", 16, 3));

    save(folder.path(), test::llama_sizes());
    SafetensorsFile const llama(folder / "model.safetensors");
    values.resize(8 * 16);
    llama.read("model.layers.0.self_attn.v_proj.weight", values);
    CHECK(values[5 * 16 + 7] == test::value("h.0.self_attn.qkv.weight", 24 + 5, 7));
    values.resize(24 * 16);
    llama.read("model.layers.1.mlp.up_proj.weight", values);
    CHECK(values[23 * 16 + 7] == test::value("h.1.mlp.gate_up.weight", 24 + 23, 7));
    values.resize(16 * 16);
    llama.read("model.layers.1.self_attn.o_proj.weight", values);  // square, not transposed
    CHECK(values[3 * 16 + 7] == test::value("h.1.self_attn.o_proj.weight", 3, 7));
}

TEST_CASE("matrices wider than a block of the transposition come back") {
    Folder const folder;
    auto         sizes = test::gpt2_sizes();
    sizes.dim = 132, sizes.ffn = 70;
    save(folder.path(), sizes);
    CHECK(differences(folder.path(), sizes) == 0);
}

TEST_CASE("any range of rows is read alone, across the tensors of a fused matrix and from transposed ones") {
    for (auto const& sizes : {test::gpt2_sizes(), test::llama_sizes()}) {
        Folder const folder;
        save(folder.path(), sizes);
        Units const             units = test::units(sizes);
        HuggingFaceReader const reader(folder.path(), sizes, units);
        std::size_t             wrong = 0;
        for (state::Parameter const& parameter : units[1].parameters)
            for (std::size_t begin = 0; begin <= parameter.rows; begin += 5)
                for (std::size_t end = begin; end <= parameter.rows; end += 3) {
                    std::vector<float> values((end - begin) * parameter.columns);
                    reader.read(parameter, {begin, end}, values);
                    for (std::size_t i = 0; i < values.size(); ++i)
                        wrong += values[i] != test::value(parameter.name, begin + i / parameter.columns, i % parameter.columns);
                }
        CHECK(wrong == 0);
        std::vector<float>      values(3);
        state::Parameter const& first = units[0].parameters[0];
        CHECK(mentions(refusal([&] { reader.read(first, {0, 1}, values); }), first.name + ": expected a buffer for rows 0 to 1"));
        CHECK(mentions(refusal([&] { reader.read(first, {first.rows, first.rows + 1}, values); }), "expected a buffer for rows"));
    }
}

TEST_CASE("a padded vocabulary is cut in the file and zero beyond it when read") {
    Folder const folder;
    auto const   sizes          = test::gpt2_sizes();
    Units        units          = test::units(sizes);
    units[0].parameters[0].rows = 32;
    units[0].parameters[0].map  = state::MatrixMap(32, 12);
    save_weights(folder.path(), sizes, units,
                 [](std::size_t, state::Parameter const& parameter, std::span<float> values) { test::fill(parameter, values); });
    CHECK(SafetensorsFile(folder / "model.safetensors").tensor("transformer.wte.weight").shape == std::vector<std::uint64_t>{17, 12});
    CHECK(differences(folder.path(), sizes) == 0);
    HuggingFaceReader const reader(folder.path(), sizes, units);
    std::vector<float>      values(32 * 12, 7.f);
    reader.read(units[0].parameters[0], {0, 32}, values);
    CHECK(values[16 * 12 + 11] == test::value("wte", 16, 11));
    CHECK(std::ranges::all_of(std::span(values).subspan(17 * 12), [](float v) { return v == 0; }));
    units[0].parameters[1].rows = 16;  // only the vocabulary may be padded
    CHECK(mentions(refusal([&] { HuggingFaceReader(folder.path(), sizes, units); }), "parameter wpe must be [9,12], found [16,12]"));
}

TEST_CASE("names without the prefix, causal masks and a tied head are accepted") {
    Folder const folder;
    auto const   sizes = test::gpt2_sizes();
    save(folder / "m", sizes);
    std::vector<float> table(17 * 12);
    SafetensorsFile(folder / "m/model.safetensors").read("transformer.wte.weight", table);
    auto const bare = [&](std::string const& name) { return name.substr(12); };
    rewrite(folder / "m/model.safetensors", folder / "bare.safetensors", bare);
    CHECK(differences(folder / "bare.safetensors", sizes) == 0);
    rewrite(folder / "m/model.safetensors", folder / "old.safetensors", bare,
            {{{"h.0.attn.bias", Dtype::u8, {1, 1, 9, 9}}, std::vector<float>(81)},
             {{"h.1.attn.masked_bias", Dtype::f32, {}}, {-1e4f}},
             {{"lm_head.weight", Dtype::f32, {17, 12}}, table}});
    CHECK(differences(folder / "old.safetensors", sizes) == 0);

    table[200] += 1;
    rewrite(folder / "m/model.safetensors", folder / "x", same, {{{"lm_head.weight", Dtype::f32, {17, 12}}, table}});
    CHECK(mentions(load_fault(folder / "x", sizes), "x: tensor \"lm_head.weight\": the head is tied and must equal wte.weight"));
    rewrite(folder / "m/model.safetensors", folder / "x", same, {{{"lm_head.weight", Dtype::f32, {12, 17}}, table}});
    CHECK(mentions(load_fault(folder / "x", sizes),
                   "x: tensor \"lm_head.weight\": shape must be that of wte.weight, [17,12], found [12,17]"));

    save(folder / "l", test::llama_sizes());
    rewrite(folder / "l/model.safetensors", folder / "inv", same,
            {{{"model.layers.0.self_attn.rotary_emb.inv_freq", Dtype::f32, {2}}, {1.f, 2.f}}});
    CHECK(differences(folder / "inv", test::llama_sizes()) == 0);
}

TEST_CASE("missing and unexpected tensors are listed all at once") {
    Folder const folder;
    auto const   sizes = test::gpt2_sizes();
    save(folder / "m", sizes);
    rewrite(folder / "m/model.safetensors", folder / "x",
            [](std::string const& name) {
                return name.ends_with("ln_f.bias") ? "" : name.ends_with("h.1.ln_1.weight") ? "transformer.h.1.ln_1.gamma" : name;
            },
            {{{"extra\n", Dtype::f32, {1}}, {1.f}}});
    CHECK(load_fault(folder / "x", sizes) ==
          (folder / "x").string() +
              ": expected a gpt2 model of 2 layers, found missing tensors transformer.ln_f.bias, transformer.h.1.ln_1.weight; "
              "unexpected tensors extra\\x0a, transformer.h.1.ln_1.gamma");
    auto deeper   = sizes;
    deeper.layers = 3;
    CHECK(mentions(load_fault(folder / "m", deeper),
                   "m/model.safetensors: expected a gpt2 model of 3 layers, found missing tensors transformer.h.2.ln_1.weight, "));
    auto shallower   = sizes;
    shallower.layers = 1;
    CHECK(mentions(load_fault(folder / "m", shallower), "unexpected tensors transformer.h.1.attn.c_attn.bias, "));
    CHECK(mentions(load_fault(folder / "m", test::llama_sizes()),
                   "expected a llama model of 2 layers, found missing tensors model.embed_tokens.weight"));
    rewrite(folder / "m/model.safetensors", folder / "x", same, {{{"wte.weight", Dtype::f32, {1}}, {1.f}}});
    CHECK(mentions(load_fault(folder / "x", sizes), "tensor \"wte.weight\": expected once, found with and without \"transformer.\""));
}

TEST_CASE("of many missing or unexpected tensors the first are listed, and how many more there are") {
    Folder const folder;
    auto         sizes = test::gpt2_sizes();
    save(folder / "m", sizes);
    sizes.layers       = 30;
    auto const missing = load_fault(folder / "m", sizes);
    CHECK(mentions(missing, "transformer.h.3.ln_2.bias and 316 more"));  // 12 tensors of 28 layers, 20 of them listed
    CHECK(missing.size() < 1000);

    CHECK(refusal([&] { check_layers(folder / "m", test::gpt2_sizes()); }).empty());
    sizes.layers      = 65536;
    auto const layers = refusal([&] { check_layers(folder / "m", sizes); });
    CHECK(mentions(layers,
                   "m/model.safetensors: expected a gpt2 model of 65536 layers, found missing tensors transformer.h.2.ln_1.weight, "));
    CHECK(mentions(layers, "transformer.h.2.mlp.c_proj.bias and those of later layers"));
    CHECK(mentions(refusal([&] { check_layers(folder / "m", test::llama_sizes()); }),
                   "missing tensors model.layers.0.input_layernorm.weight, "));
    save(folder / "l", test::llama_sizes());
    CHECK(refusal([&] { check_layers(folder / "l", test::llama_sizes()); }).empty());
}

TEST_CASE("a shape or a type that does not fit names file, tensor, expected and found") {
    Folder const folder;
    auto const   sizes = test::gpt2_sizes();
    save(folder / "m", sizes);
    auto const        without = [](std::string const& name) { return name.ends_with("h.0.mlp.c_fc.weight") ? "" : name; };
    std::string const who     = (folder / "x").string() + ": tensor \"transformer.h.0.mlp.c_fc.weight\": ";
    rewrite(folder / "m/model.safetensors", folder / "x", without,
            {{{"transformer.h.0.mlp.c_fc.weight", Dtype::f32, {20, 12}}, std::vector<float>(240)}});
    CHECK(load_fault(folder / "x", sizes) == who + "shape must be [12,20], found [20,12]");
    rewrite(folder / "m/model.safetensors", folder / "x", without,
            {{{"transformer.h.0.mlp.c_fc.weight", Dtype::f32, {240}}, std::vector<float>(240)}});
    CHECK(load_fault(folder / "x", sizes) == who + "shape must be [12,20], found [240]");
    rewrite(folder / "m/model.safetensors", folder / "x", without,
            {{{"transformer.h.0.mlp.c_fc.weight", Dtype::u8, {12, 20}}, std::vector<float>(240)}});
    CHECK(load_fault(folder / "x", sizes) == who + "dtype must be F32, BF16, F16 or F64, found U8");
}

TEST_CASE("shards with an index are read like one file") {
    Folder const folder;
    auto const   sizes = test::llama_sizes();
    save(folder / "m", sizes);
    auto const first = [](std::string const& name) { return mentions(name, "layers.0.") ? name : ""; };
    auto const rest  = [](std::string const& name) { return mentions(name, "layers.0.") ? "" : name; };
    rewrite(folder / "m/model.safetensors", folder / "model-00001-of-00002.safetensors", first);
    rewrite(folder / "m/model.safetensors", folder / "model-00002-of-00002.safetensors", rest);
    Json index{{"metadata", {{"total_size", 1}}}, {"weight_map", Json::object()}};
    for (char const* shard : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
        SafetensorsFile const file(folder / shard);
        for (TensorInfo const& tensor : file.tensors()) index["weight_map"][tensor.name] = shard;
    }
    folder.write("model.safetensors.index.json", index.dump());
    CHECK(differences(folder.path(), sizes) == 0);
}

TEST_CASE("a NaN keeps its payload from memory to file and back") {
    Folder const  folder;
    auto const    sizes = test::gpt2_sizes();
    Units const   units = test::units(sizes);
    std::uint32_t seen  = 0;
    save_weights(folder.path(), sizes, units, [](std::size_t, state::Parameter const&, std::span<float> values) {
        std::uint32_t const bits = 0xFFA54321u;
        for (float& v : values) std::memcpy(&v, &bits, 4);
    });
    load_weights(folder.path(), sizes, units, [&](std::size_t, state::Parameter const&, std::span<float const> values) {
        for (float const& v : values) seen += std::bit_cast<std::uint32_t>(v) == 0xFFA54321u;
    });
    CHECK(seen == state::element_count(units));
}

TEST_CASE("an export that fails leaves nothing behind and the old files as they were") {
    Folder const folder;
    auto const   sizes = test::gpt2_sizes();
    folder.write("file", "x");
    CHECK(mentions(refusal([&] { save(folder / "file", sizes); }), "file: cannot be made a directory"));
    CHECK(mentions(refusal([&] { save("/dev/full/model", sizes); }), "/dev/full/model: cannot be made a directory"));
    CHECK(mentions(refusal([&] { save("/proc/lockstep/model", sizes); }), "/proc/lockstep/model: cannot be made a directory"));

    auto const stopped = [&](std::filesystem::path const& directory) {
        Units const units = test::units(sizes);
        return refusal([&] {
            save_weights(directory, sizes, units, [&](std::size_t unit, state::Parameter const& parameter, std::span<float> values) {
                test::fill(parameter, values);
                if (unit == 1) input_error("stopped");
            });
        });
    };
    CHECK(stopped(folder / "new/below") == "stopped");
    CHECK(folder.entries() == 1);

    save(folder / "m", sizes);
    std::string const before = test::read_all(folder / "m/model.safetensors");
    CHECK(stopped(folder / "m") == "stopped");
    CHECK(test::read_all(folder / "m/model.safetensors") == before);
    CHECK(std::distance(std::filesystem::directory_iterator(folder / "m"), {}) == 2);

    ::rlimit old{};
    ::getrlimit(RLIMIT_FSIZE, &old);
    auto const     handler = std::signal(SIGXFSZ, SIG_IGN);
    ::rlimit const small{8192, old.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    std::string const said = refusal([&] { save(folder / "full", sizes); });
    ::setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, handler);
    CHECK(said == (folder / "full/model.safetensors").string() + ": writing failed: File too large");
    CHECK(folder.entries() == 2);
}

}  // namespace hugging_face_test
