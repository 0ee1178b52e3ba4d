// Wrong calls: exit code 2, one line on standard error that names the flag or the file, nothing written, nobody waits for anybody.

#include <sys/stat.h>

#include <map>

#include "lockstep/kernel/arch/cpu_features.hpp"
#include "program.hpp"

namespace bad_calls_test {

using namespace lockstep::test;
namespace fs = std::filesystem;

/// What a wrong call gives besides what is right, and what its sentence must say.
struct Call {
    Words flags;
    Words says;
};

/// Flags by which a small run works; `wrong` replaces some of them.
Words with(Words right, Words const& wrong) {
    for (std::string const& word : wrong)
        if (auto const at = std::find(right.begin(), right.end(), word.substr(0, word.find('='))); at != right.end() && word.starts_with("--")) right.erase(at, at + 2);
    return right + wrong;
}

/// Everything in a folder, with the contents of files.
std::map<std::string, std::string> contents(fs::path const& folder) {
    std::map<std::string, std::string> all;
    for (auto const& entry : fs::recursive_directory_iterator(folder)) all[entry.path().string()] = entry.is_regular_file() ? read_all(entry.path()) : "not a file";
    return all;
}

class Place {
public:
    Place() {
        data  = folder.write("data.bin", shard(some_tokens(400, 50)));
        right = {"--data", data, "--layers", "1", "--heads", "2", "--dim", "16", "--ffn", "32", "--vocab", "50", "--seq", "8", "--global-batch", "12", "--steps", "2", "--sample", "0",
                 "--metrics", folder / "metrics.jsonl", "--export", folder / "out"};
        folder.write("kept.jsonl", "of an earlier run\n");
    }

    void check(std::vector<Call> const& calls, std::vector<int> const& all_ranks = {1, 2}) const {
        auto const before = contents(folder / "");
        for (Call const& call : calls)
            for (int const ranks : all_ranks) {
                Ended const ended = run(ranks, with(right, call.flags), 30);
                CAPTURE(ranks);
                CAPTURE(joined(call.flags));
                CAPTURE(ended.err);
                CAPTURE(ended.seconds);
                CHECK(ended.code == 2);
                CHECK(count(ended.err, "\n") == 1);
                CHECK(ended.err.ends_with('\n'));
                CHECK(count(ended.err, "rank 0:") + count(ended.err, "rank 1:") == 0);
                CHECK(count(ended.err, "MPI") + count(ended.err, "std::") == 0);
                CHECK(ended.out.empty());
                for (std::string const& words : call.says) CHECK_MESSAGE(count(ended.err, words) != 0, "must say: ", words);
                CHECK((contents(folder / "") == before));
                ++checked;
            }
    }

    Folder              folder;
    std::string         data;
    Words               right;
    std::size_t mutable checked = 0;
};

std::string little_endian(std::uint64_t value, std::size_t bytes) {
    std::string text;
    for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i & 255u);
    return text;
}

/// A shard's bytes with one header field replaced.
std::string with_field(std::string bytes, std::size_t field, std::uint32_t value) { return bytes.replace(4 * field, 4, little_endian(value, 4)); }

/// Header and data of a safetensors file.
struct Weights {
    explicit Weights(std::string const& bytes) {
        std::size_t length = 0;
        for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
        header = nlohmann::ordered_json::parse(bytes.substr(8, length));
        data   = bytes.substr(8 + length);
    }
    std::string bytes() const {
        std::string const text = header.dump();
        return little_endian(text.size(), 8) + text + data;
    }
    nlohmann::ordered_json header;
    std::string            data;
};

TEST_CASE("the flags that the wrong calls start from work") {
    Place const place;
    for (int ranks : {1, 2, 3}) {
        run_well(ranks, place.right);
        CHECK(read_lines(place.folder / "metrics.jsonl").size() == 2);
        CHECK(fs::exists(place.folder / "out/model.safetensors"));
    }
}

TEST_CASE("numbers that are none, or that cannot be") {
    Place const       place;
    std::vector<Call> calls;
    // each flag with three of the values, each value with several flags
    std::size_t turn = 0;
    auto const  add  = [&](Words const& flags, char const* expected, Words const& values) {
        for (std::string const& flag : flags)
            for (std::size_t i = 0; i < 3; ++i) {
                std::string const& value = values[turn++ % values.size()];
                calls.push_back({{flag, value}, {flag, expected, "found " + (value.empty() ? "nothing" : value)}});
            }
    };
    add({"--layers", "--heads", "--kv-heads", "--dim", "--ffn", "--vocab", "--seq", "--global-batch", "--micro-batch", "--threads"}, "expected a whole number from 1 to",
        {"0", "-3", "1.5", "many", "99999999999999999999999"});
    add({"--seed", "--steps", "--warmup", "--eval-every", "--prefetch", "--sample"}, "expected a whole number from 0 to",
        {"-1", "2.5", "nan", "", "99999999999999999999999", "0x10", "3 "});
    add({"--ignore-label"}, "expected a whole number from -2147483648 to 2147483647", {"2.5", "", "2147483648"});
    add({"--lr", "--weight-decay", "--clip", "--min-lr-ratio", "--bucket-mb", "--temperature", "--dropout", "--beta1", "--beta2", "--eps", "--momentum", "--val-fraction"}, "expected a number from",
        {"-0.5", "nan", "inf", "1e999", "half", "0.1x", ""});
    for (char const* flag : {"--dropout", "--beta1", "--beta2", "--momentum", "--val-fraction"}) calls.push_back({{flag, "1"}, {flag, "to below 1", "found 1"}});
    for (char const* eps : {"0", "1e-40"}) calls.push_back({{"--eps", eps}, {"--eps", "from 1.17549e-38 to 1", std::string("found ") + eps}});
    for (char const* flag : {"--dropout", "--beta1", "--beta2", "--momentum"}) calls.push_back({{flag, "0.99999999"}, {flag, "to below 1", "found 0.99999999"}});
    calls.push_back({{"--min-lr-ratio", "1.01"}, {"--min-lr-ratio", "0 to 1", "1.01"}});
    calls.push_back({{"--threads", "5000"}, {"--threads", "1 to 1024", "5000"}});
    place.check(calls, {1});
    for (std::size_t i = 0; i < calls.size(); i += 5) place.check({calls[i]}, {2});
    CHECK(place.checked > 110);
}

TEST_CASE("words that are no choice of their flag") {
    Place const       place;
    std::vector<Call> calls;
    for (auto const& [flag, choices] : std::map<std::string, std::string>{{"--order", "shuffled|sequential"},
                                                                          {"--arch", "gpt2|llama"},
                                                                          {"--preset", "shakespeare-cpu"},
                                                                          {"--precision", "fp32|bf16|fp16"},
                                                                          {"--reduce-dtype", "fp32|bf16"},
                                                                          {"--optimizer", "sgd|adam|adamw"},
                                                                          {"--schedule", "constant|cosine|wsd"},
                                                                          {"--strategy", "single|replicated|sharded-optimizer|sharded|hybrid"},
                                                                          {"--reshard", "always|never or a number of units from 1 to "},
                                                                          {"--overlap", "on|off"},
                                                                          {"--progress", "auto|thread|inside"},
                                                                          {"--reduction", "ordered|vendor"},
                                                                          {"--accumulate", "local|sharded"},
                                                                          {"--reproducible", "on|off"},
                                                                          {"--recompute", "none|block"},
                                                                          {"--isa", "auto|amx|avx512|avx2|scalar"}}) {
        calls.push_back({{flag, "other"}, {flag, "expected", choices, "found other"}});
        calls.push_back({{flag, ""}, {flag, "expected", choices, "found nothing"}});
    }
    calls.push_back({{"--precision", "FP32"}, {"--precision", "found FP32"}});
    calls.push_back({{"--overlap", "two\nlines"}, {"--overlap", "two\\x0alines"}});
    place.check(calls);
}

TEST_CASE("flags that are unknown, given twice, or without a value") {
    Place const place;
    place.check({{{"--learning-rate", "1"}, {"--learning-rate", "expected one of the flags", "found"}},
                 {{"--lrr=1"}, {"--lrr", "expected one of the flags"}},
                 {{"-x"}, {"-x", "expected one of the flags"}},
                 {{"words"}, {"words", "expected one of the flags"}},
                 {{""}, {"nothing", "expected one of the flags"}},
                 {{"--version"}, {"--version", "expected one of the flags"}},
                 {{"--lr"}, {"--lr", "expected a value, found none"}},
                 {{"--metrics"}, {"--metrics", "expected a value, found none"}},
                 {{"--lr="}, {"--lr", "expected a value, found none"}},
                 {{"--lr", "--steps"}, {"--lr", "expected a number", "found --steps"}},
                 {{"--lr", "1", "--lr", "2"}, {"--lr", "expected once, found 2 times"}}});
    for (char const* flag : {"--data", "--val-data", "--init", "--metrics", "--export", "--prompt"}) place.check({{{flag, ""}, {flag, "expected", "found nothing"}}});
    place.check({{{"--data", "two\nlines.txt"}, {"--data", "without control characters", "two\\x0alines.txt"}}});
}

TEST_CASE("sizes, batches and ranks that do not go together") {
    Place const place;
    place.check({
        {{"--dim", "17"}, {"--dim", "multiple of --heads 2", "found 17"}},
        {{"--heads", "3"}, {"--dim", "multiple of --heads 3", "found 16"}},
        {{"--kv-heads", "1"}, {"--kv-heads", "expected 2", "gpt2", "found 1"}},
        {{"--arch", "llama", "--heads", "4", "--kv-heads", "3"}, {"--kv-heads", "divisor of --heads 4", "found 3"}},
        {{"--arch", "llama", "--heads", "16"}, {"--dim", "even", "16 / 16 = 1"}},
        {{"--layers", "70000"}, {"--layers", "to 65536", "70000"}},
        {{"--layers", "60000", "--dim", "1000000", "--ffn", "1000000"}, {"--layers", "2^48"}},
        {{"--dim", "2000000", "--ffn", "8000000"}, {"--dim", "fits into", "GiB"}},
        {{"--vocab", "2000000000", "--dim", "64"}, {"--vocab", "fits into", "GiB"}},
        {{"--vocab", "70000"}, {"data.bin", "4-byte ids", "vocabulary of 70000", "2-byte"}},
        {{"--global-batch", "2000000000", "--micro-batch", "1000000000"}, {"--global-batch", "--micro-batch", "fits into", "GiB"}},
        {{"--micro-batch", "5"}, {"--global-batch", "micro-batch", "5", "found 12"}},
        {{"--micro-batch", "24"}, {"--global-batch", "24", "found 12"}},
        {{"--shard-group", "2"}, {"--shard-group", "expected --strategy hybrid", "found none"}},
        {{"--shard-group", "0", "--strategy", "hybrid"}, {"--shard-group", "found 0"}},
        {{"--shard-group", "2", "--strategy", "sharded"}, {"--shard-group", "expected --strategy hybrid", "found sharded"}},
        {{"--shard-group", "3", "--strategy", "hybrid"}, {"--shard-group", "expected a divisor of", "found 3"}},
        {{"--timeout", "0"}, {"--timeout", "found 0"}},
        {{"--reduction", "vendor", "--reduce-dtype", "bf16"}, {"--reduction", "--reduce-dtype bf16"}},
        {{"--reproducible", "on", "--reduction", "vendor"}, {"--reproducible on", "expected --reduction ordered", "found vendor"}},
        {{"--reproducible", "on", "--reduce-dtype", "bf16"}, {"--reproducible on", "expected --reduce-dtype fp32", "found bf16"}},
        {{"--reproducible", "on", "--accumulate", "sharded"}, {"--reproducible on", "expected --accumulate local", "found sharded"}},
        {{"--seq", "400"}, {"--data", place.data, "expected at least 401 tokens", "--seq 400", "found 360"}},
        {{"--seq", "360", "--val-fraction", "0.1"}, {"--data", "expected at least 361 tokens that are not held out", "found 360"}},
        {{"--seq", "50", "--eval-every", "1"}, {"--val-fraction", "expected at least 51 tokens held out", "found 40"}},
        {{"--eval-every", "1", "--val-fraction", "0"}, {"--eval-every", "held-out", "--val-fraction 0"}},
        {{"--prompt", "z", "--sample", "3"}, {"--prompt", "below --vocab 50", "found 122"}},
        {{"--accumulate", "sharded"}, {"--accumulate sharded", "expected --strategy sharded", "found "}},
    });
    place.check({{{"--accumulate", "sharded", "--strategy", "single"}, {"--accumulate sharded", "found single"}},
                 {{"--accumulate", "sharded", "--strategy", "replicated"}, {"--accumulate sharded", "found replicated"}},
                 {{"--accumulate", "sharded", "--strategy", "sharded-optimizer"}, {"--accumulate sharded", "found sharded-optimizer"}}},
                {1});
    place.check({{{"--strategy", "single"}, {"--strategy single", "expected 1 rank", "found 2"}},
                 {{"--global-batch", "1"}, {"--global-batch", "multiple of 2 ranks", "found 1"}},
                 {{"--global-batch", "7"}, {"--global-batch", "multiple of 2 ranks", "found 7"}}},
                {2});
    place.check({{{"--reproducible", "on"}, {"--reproducible on", "expected a power of two of ranks", "found 3"}},
                 {{"--strategy", "hybrid", "--shard-group", "2"}, {"--shard-group", "expected a divisor of 3 ranks", "found 2"}},
                 {{"--global-batch", "2"}, {"--global-batch", "multiple of 3 ranks", "found 2"}},
                 {{"--micro-batch", "3"}, {"--global-batch", "3 x 3", "found 12"}},
                 {{"--data", place.folder / "none.bin"}, {"none.bin", "does not exist"}},
                 {{"--lr", "fast"}, {"--lr", "expected a number", "found fast"}},
                 {{"--export", place.data + "/out"}, {"data.bin/out", "cannot be made"}}},
                {3});
}

TEST_CASE("kernels that the machine or the program does not have") {
    namespace arch = lockstep::kernel::arch;
    Place const       place;
    std::vector<Call> calls;
#if defined(__AVX512F__)
    calls.push_back({{"--isa", "avx2"}, {"--isa", "another family", "AVX-512", "found avx2"}});
    bool const wide = arch::has_avx512();
#else
    bool const wide = false;
    if (!arch::has_avx2_fma()) calls.push_back({{"--isa", "avx2"}, {"--isa", "avx2"}});
#endif
    if (!wide && !arch::has_avx512_bfloat16()) calls.push_back({{"--isa", "avx512"}, {"--isa", "avx512"}});
    if (!arch::has_amx()) calls.push_back({{"--isa", "amx"}, {"isa", "amx"}});
    place.check(calls);
}

TEST_CASE("data that is missing, truncated, malformed or of another vocabulary") {
    Place const       place;
    Folder const&     f     = place.folder;
    std::string const valid = shard(some_tokens(400, 50));
    auto              wide  = with_field(with_field(shard({}), 0, 20240801), 1, 7);
    wide                    = with_field(wide, 2, 40) + std::string(4 * 39, '\0') + little_endian(4'000'000'000u, 4);
    auto            swapped = valid;
    std::reverse(swapped.begin(), swapped.begin() + 4);
    auto beyond = some_tokens(400, 50);
    beyond[123] = 50;
    fs::create_directory(f / "folder.bin");
    REQUIRE(::mkfifo((f / "pipe.bin").c_str(), 0600) == 0);
    std::vector<Call> const calls{
        {{f / "none.bin"}, {"none.bin", "does not exist"}},
        {{f / "none/none.txt"}, {"none.txt", "does not exist"}},
        {{place.data + "/x"}, {"data.bin/x", "expected a file that can be read"}},
        {{f / "folder.bin"}, {"folder.bin", "found a directory"}},
        {{f / "pipe.bin"}, {"pipe.bin", "regular file", "pipe"}},
        {{"/dev/zero"}, {"/dev/zero", "regular file", "device"}},
        {{f.write("empty.bin", "")}, {"empty.bin", "empty file"}},
        {{f.write("empty.txt", "")}, {"empty.txt", "empty file"}},
        {{f.write("short.bin", valid.substr(0, 100))}, {"short.bin", "header of 1024 bytes", "100"}},
        {{f.write("magic.bin", with_field(valid, 0, 12345))}, {"magic.bin", "expected the magic 20240520", "found 12345"}},
        {{f.write("other.bin", with_field(valid, 0, 20240326))}, {"other.bin", "expected tokens", "20240326"}},
        {{f.write("swapped.bin", swapped)}, {"swapped.bin", "little-endian"}},
        {{f.write("version.bin", with_field(valid, 1, 9))}, {"version.bin", "expected version 1", "found 9"}},
        {{f.write("none_inside.bin", with_field(valid, 2, 0))}, {"none_inside.bin", "count above 0", "found 0"}},
        {{f.write("negative.bin", with_field(valid, 2, 0x80000000u))}, {"negative.bin", "count above 0"}},
        {{f.write("cut.bin", valid.substr(0, valid.size() - 1))}, {"cut.bin", "truncated", "expected 1824 bytes", "found 1823"}},
        {{f.write("long.bin", valid + "x")}, {"long.bin", "trailing", "expected 1824 bytes", "found 1825"}},
        {{f.write("beyond.bin", shard(beyond))}, {"beyond.bin", "vocabulary of 50", "found 50 at position 123"}},
        {{f.write("wide.bin", wide)}, {"wide.bin", "vocabulary of 50", "found 4000000000 at position 39"}},
        {{f.write("text.txt", std::string(400, '0') + "a")}, {"text.txt", "vocabulary of 50", "found 97 at position 400"}},
    };
    for (Call const& call : calls) {
        place.check({{{"--data", call.flags[0]}, call.says}});
        place.check({{{"--val-data", call.flags[0], "--eval-every", "1"}, call.says}}, {2});
    }
    place.check({{{"--val-data", f.write("few.bin", shard(some_tokens(8, 50)))}, {"--val-data", "few.bin", "expected at least 9 tokens", "found 8"}},
                 {{"--data", f.write("nine.bin", shard(some_tokens(9, 50)))}, {"--data", "nine.bin", "expected at least 9 tokens that are not held out", "found 8"}}});
}

TEST_CASE("initial weights that are missing, truncated, malformed or of another model") {
    Place const   place;
    Folder const& f = place.folder;
    run_well(1, place.right);
    fs::rename(f / "out", f / "good");
    fs::remove(f / "metrics.jsonl");
    std::string const valid = read_all(f / "good/model.safetensors"), config = read_all(f / "good/config.json");
    auto const        changed = [&](char const* name, auto const& change) {
        Weights weights(valid);
        change(weights.header);
        return f.write(name, weights.bytes());
    };
    auto const model = [&](std::string const& name, std::string const& configuration) {
        fs::create_directory(f / name);
        f.write(name + "/model.safetensors", valid);
        f.write(name + "/config.json", configuration);
        return f / name;
    };
    auto const with_key = [&](char const* key, nlohmann::ordered_json const& value) {
        auto json = nlohmann::ordered_json::parse(config);
        json[key] = value;
        return json.dump();
    };
    char const* const table = "transformer.wte.weight";
    fs::create_directory(f / "bare");
    std::string const small_head = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}";

    std::vector<Call> const calls{
        {{f / "none.safetensors"}, {"none.safetensors", "expected a file that can be read", "No such file"}},
        {{f / "none"}, {"none", "expected a file that can be read"}},
        {{f / "bare"}, {"bare", "expected model.safetensors", "found neither"}},
        {{"/dev/zero"}, {"/dev/zero", "regular file"}},
        {{f.write("empty.safetensors", "")}, {"empty.safetensors", "expected a safetensors header", "0 bytes"}},
        {{f.write("text.safetensors", "these are no weights, only words")}, {"text.safetensors", "header too large"}},
        {{f.write("length.safetensors", little_endian(5000, 8) + "{}")}, {"length.safetensors", "invalid header length", "found 5000"}},
        {{f.write("json.safetensors", little_endian(4, 8) + "{\"a\"")}, {"json.safetensors", "header"}},
        {{f.write("offsets.safetensors", little_endian(small_head.size(), 8) + small_head + std::string(8, '\0'))}, {"offsets.safetensors", "needs 4 bytes", "found data_offsets of 8"}},
        {{f.write("cut.safetensors", valid.substr(0, valid.size() - 4))}, {"cut.safetensors", "expected", "truncated"}},
        {{f.write("long.safetensors", valid + "1234")}, {"long.safetensors", "trailing bytes"}},
        {{changed("renamed.safetensors",
                  [&](auto& header) {
                      header["stranger"] = header[table];
                      header.erase(table);
                  })},
         {"renamed.safetensors", "missing tensors", table, "unexpected tensors", "stranger"}},
        {{changed("shape.safetensors", [&](auto& header) { header[table]["shape"] = {25, 32}; })}, {"shape.safetensors", table, "[50,16]", "[25,32]"}},
        {{changed("type.safetensors", [&](auto& header) { header[table]["dtype"] = "I32"; })}, {"type.safetensors", table, "dtype must be F32", "I32"}},
        {{model("malformed", "{ \"model_type\": ")}, {"malformed/config.json"}},
        {{model("no_object", "[1]")}, {"no_object/config.json"}},
        {{model("other", with_key("model_type", "bert"))}, {"other/config.json", "model_type", "gpt2 or llama", "bert"}},
        {{model("relu", with_key("activation_function", "relu"))}, {"relu/config.json", "activation_function", "gelu_new", "relu"}},
        {{model("no_heads", with_key("n_head", 0))}, {"no_heads/config.json", "heads", "found 0"}},
        {{model("three", with_key("n_layer", 3))}, {"--layers", "three/config.json", "expected 3"}},
        {{model("negative", with_key("n_embd", -16))}, {"negative/config.json", "n_embd"}},
    };
    Words deep = place.right;
    deep.erase(std::find(deep.begin(), deep.end(), "--layers"), std::find(deep.begin(), deep.end(), "--layers") + 2);
    for (int const ranks : {1, 2}) {  // no model of so many layers is made to find that they are not there
        Ended const ended = run(ranks, deep + Words{"--init", model("deep", with_key("n_layer", 60000))}, 30);
        INFO(ended.err);
        CHECK(ended.code == 2);
        CHECK(ended.err.ends_with("expected a gpt2 model of 60000 layers, found missing tensors transformer.h.1.ln_1.weight, transformer.h.1.ln_1.bias, transformer.h.1.attn.c_attn.weight, "
                                  "transformer.h.1.attn.c_attn.bias, transformer.h.1.attn.c_proj.weight, transformer.h.1.attn.c_proj.bias, transformer.h.1.ln_2.weight, transformer.h.1.ln_2.bias, "
                                  "transformer.h.1.mlp.c_fc.weight, transformer.h.1.mlp.c_fc.bias, transformer.h.1.mlp.c_proj.weight, transformer.h.1.mlp.c_proj.bias and those of later layers\n"));
    }
    for (Call const& call : calls) place.check({{{"--init", call.flags[0]}, call.says}});
    fs::copy_file(f / "good/model.safetensors", f / "good/other.safetensors");
    place.check({{{"--init", f / "good", "--dim", "32"}, {"--dim 32", "expected 16", "good/config.json"}},
                 {{"--init", f / "good", "--arch", "llama"}, {"--arch llama", "expected gpt2", "good/config.json"}},
                 {{"--init", f / "good", "--seq", "16"}, {"--seq 16", "expected at most 8", "good/config.json"}},
                 {{"--init", f / "good/model.safetensors", "--vocab", "60"}, {"--vocab 60", "expected 50"}},
                 {{"--init", f / "good/other.safetensors", "--vocab", "60"}, {"--vocab 60", "expected 50"}},
                 {{"--init", f.write("sizes.safetensors", valid), "--layers", "2"}, {"sizes.safetensors", "missing tensors", "transformer.h.1."}},
                 {{"--init", f / "sizes.safetensors", "--arch", "llama"}, {"sizes.safetensors", "expected a llama model"}}});
}

TEST_CASE("metrics and weights that cannot be written") {
    Place const   place;
    Folder const& f = place.folder;
    fs::create_directory(f / "folder");
    fs::create_directories(f / "blocked/model.safetensors");
    f.write("notes.txt", "not a folder");
    place.check({
        {{"--metrics", f / "folder"}, {"folder", "found a directory"}},
        {{"--metrics", f / "none/metrics.jsonl"}, {"none/metrics.jsonl", "cannot be opened for writing", "No such file"}},
        {{"--metrics", f / "notes.txt/metrics.jsonl"}, {"notes.txt/metrics.jsonl", "cannot be opened for writing"}},
        {{"--export", f / "notes.txt"}, {"notes.txt", "cannot be made a directory"}},
        {{"--export", f / "notes.txt/out"}, {"notes.txt/out", "cannot be made a directory"}},
        {{"--export", "/proc/none/out"}, {"/proc/none/out", "cannot be made a directory"}},
        {{"--export", f / "blocked"}, {"blocked/model.safetensors", "not a regular file"}},
        {{"--export", f / std::string(300, 'x')}, {"xxx", "cannot be made a directory"}},
        // one that could be written stays as it was where the other cannot
        {{"--metrics", f / "kept.jsonl", "--export", f / "notes.txt"}, {"notes.txt", "cannot be made a directory"}},
        {{"--metrics", f / "folder", "--export", f / "new/out"}, {"folder", "found a directory"}},
        {{"--metrics", f / "kept.jsonl", "--data", f / "none.bin"}, {"none.bin", "does not exist"}},
    });
}

TEST_CASE("results that would overwrite what is read, or each other") {
    Place const   place;
    Folder const& f = place.folder;
    run_well(1, place.right);
    fs::rename(f / "out", f / "init");
    fs::remove(f / "metrics.jsonl");
    fs::create_directory(f / "data");
    fs::copy(place.data, f / "data/config.json");
    fs::copy(place.data, f / "data/model.safetensors");
    fs::create_directory(f / "shards");
    fs::copy(f / "init/model.safetensors", f / "shards/model-00001-of-00001.safetensors");
    fs::create_symlink(place.data, f / "link.jsonl");
    fs::create_hard_link(place.data, f / "twin.jsonl");
    f.write("held_out.bin", shard(some_tokens(100, 50)));
    REQUIRE(::mkfifo((f / "pipe").c_str(), 0600) == 0);
    std::string const init = f / "init", weights = f / "init/model.safetensors", own = "a file of its own";
    place.check({
        {{"--metrics", place.data}, {"--metrics", "data.bin", own, "--data"}},
        {{"--metrics", f / "link.jsonl"}, {"--metrics", "link.jsonl", own, "--data"}},
        {{"--metrics", f / "twin.jsonl"}, {"--metrics", "twin.jsonl", own, "--data"}},
        {{"--val-data", f / "held_out.bin", "--metrics", f / "init/../held_out.bin"}, {"--metrics", own, "--val-data"}},
        {{"--init", init, "--metrics", weights}, {"--metrics", own, "--init"}},
        {{"--init", init, "--metrics", f / "init/config.json"}, {"--metrics", own, "--init"}},
        {{"--init", weights, "--metrics", weights}, {"--metrics", own, "--init"}},
        {{"--init", weights, "--metrics", f / "init/config.json"}, {"--metrics", own, "--init"}},
        {{"--init", init, "--export", init}, {"--export", "config.json", own, "--init"}},
        {{"--init", weights, "--export", init}, {"--export", own, "--init"}},
        {{"--data", f / "data/config.json", "--vocab", "256", "--export", f / "data"}, {"--export", "data/config.json", own, "--data"}},
        {{"--data", f / "data/model.safetensors", "--vocab", "256", "--export", f / "data"}, {"--export", "data/model.safetensors", own, "--data"}},
        {{"--val-data", f / "data/config.json", "--vocab", "256", "--export", f / "data"}, {"--export", "data/config.json", own, "--val-data"}},
        {{"--export", f / "new", "--metrics", f / "new/config.json"}, {"--export", "new/config.json", own, "--metrics"}},
        {{"--export", f / "new", "--metrics", f / "new/../new/model.safetensors"}, {"--export", "new/model.safetensors", own, "--metrics"}},
        {{"--metrics", f / "pipe"}, {"pipe", "expected a file", "a pipe"}},
    });
}

}  // namespace bad_calls_test
