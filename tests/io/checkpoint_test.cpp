// Checkpoints as files: what is written is read, by as many ranks as one likes, and nothing that is wrong is accepted.

#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>

#include "../folder.hpp"
#include "lockstep/io/checkpoint_folder.hpp"
#include "lockstep/io/checkpoint_reader.hpp"
#include "lockstep/io/checkpoint_writer.hpp"
#include "lockstep/precision/bfloat16.hpp"

namespace checkpoint_test {

using namespace lockstep;
using namespace lockstep::io;
using test::Folder;
using test::mentions;
using test::refusal;
namespace fs = std::filesystem;

constexpr std::uint64_t version = 12;

/// Element e of a tensor, as bytes.
std::vector<std::byte> content(std::string const& tensor, Dtype dtype, std::size_t elements) {
    std::vector<std::byte> result(elements * bytes(dtype));
    for (std::size_t i = 0; i < result.size(); ++i)
        result[i] = static_cast<std::byte>(kernel::mix64(i, tensor.size() * 1000 + static_cast<unsigned char>(tensor.back())));
    return result;
}

struct Tensor {
    std::string                name;
    Dtype                      dtype;
    std::vector<std::uint64_t> shape;
    std::size_t                elements() const { return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>()); }
};
std::vector<Tensor> tensors() {
    return {{"master.a", Dtype::f32, {6, 5}},
            {"optimizer.0.a", Dtype::bf16, {6, 5}},
            {"master.b", Dtype::f64, {3}},
            {"master.large", Dtype::f32, {3000, 500}}};
}
std::vector<ExpectedTensor> expected() {
    std::vector<ExpectedTensor> result;
    for (Tensor const& t : tensors()) result.push_back({t.name, t.dtype, t.shape});
    return result;
}

CheckpointFacts facts() {
    return {.written_by    = "a test",
            .run           = "one",
            .version       = version,
            .seed          = 0xFFFFFFFFFFFFFFFFu,
            .loss_scale    = SavedLossScale{0x1p-3 / 3, 7},
            .position      = {1234, 5, true},
            .configuration = {{"--lr", "0.1"}, {"group", "x"}, {"group", "y"}}};
}

/// A rank's pieces: `cuts[r]` .. `cuts[r + 1]` in thousandths of each tensor.
struct Copy {
    std::vector<CheckpointPiece> pieces;
    std::vector<std::byte>       bytes;
};
Copy copy_of(std::size_t rank, std::vector<std::size_t> const& cuts) {
    Copy copy;
    for (Tensor const& t : tensors()) {
        std::size_t const begin = t.elements() * cuts[rank] / 1000, end = t.elements() * cuts[rank + 1] / 1000;
        if (begin == end) continue;
        copy.pieces.push_back({t.name, t.dtype, t.shape, {begin, end}, copy.bytes.size()});
        auto const whole = content(t.name, t.dtype, t.elements());
        auto const at    = [&](std::size_t e) { return whole.begin() + static_cast<std::ptrdiff_t>(e * bytes(t.dtype)); };
        copy.bytes.insert(copy.bytes.end(), at(begin), at(end));
    }
    return copy;
}

/// A complete checkpoint in `folder`, by as many ranks as there are parts between the cuts.
fs::path write(fs::path const& folder, std::vector<std::size_t> const& cuts, std::size_t keep = 0, std::uint64_t of = version) {
    CheckpointFolder home(folder, [&](std::uint64_t v, fs::path const&) { return v <= of; });
    home.begin(of);
    std::size_t const ranks = cuts.size() - 1;
    for (std::size_t rank = ranks; rank-- > 0;) {
        Copy const copy = copy_of(rank, cuts);
        write_checkpoint_shard(home.unfinished(of), rank, ranks, copy.pieces, copy.bytes);
    }
    auto saved    = facts();
    saved.version = of;
    write_checkpoint_index(home.unfinished(of), ranks, saved);
    home.publish(of, keep);
    return home.complete(of);
}

std::vector<std::byte> read_whole(CheckpointReader& reader, Tensor const& t, std::vector<Range> const& parts) {
    std::vector<std::byte> result(t.elements() * bytes(t.dtype));
    for (Range const part : parts)
        reader.read(t.name, std::span(&part, 1), [&](Range range, std::span<std::byte const> found) {
            CHECK(found.size() == range.size() * bytes(t.dtype));
            std::copy(found.begin(), found.end(), result.begin() + static_cast<std::ptrdiff_t>(range.begin * bytes(t.dtype)));
        });
    return result;
}

TEST_CASE("what ranks write is read in any other parts, bit for bit") {
    for (auto const& cuts : std::vector<std::vector<std::size_t>>{{0, 1000}, {0, 500, 1000}, {0, 0, 100, 700, 1000}, {0, 999, 999, 1000}}) {
        Folder const     folder;
        CheckpointReader reader((write(folder / "c", cuts), folder / "c"));
        CHECK(reader.directory() == folder / "c/step-0000000012");
        CHECK_NOTHROW(reader.check(expected()));
        for (Tensor const& t : tensors()) {
            auto const        whole = content(t.name, t.dtype, t.elements());
            std::size_t const third = t.elements() / 3, n = t.elements();
            CHECK(read_whole(reader, t, {{0, n}}) == whole);
            CHECK(read_whole(reader, t, {{0, third}, {third, third}, {third, n - 1}, {n - 1, n}}) == whole);
        }
        CheckpointFacts const &found = reader.facts(), wanted = facts();
        CHECK(found.version == version);
        CHECK(found.seed == wanted.seed);
        CHECK(found.loss_scale == wanted.loss_scale);
        CHECK(found.position == wanted.position);
        CHECK(found.configuration == wanted.configuration);
        CHECK(found.written_by == "a test");
        CHECK(found.run == "one");
        CHECK(run_of(reader.directory()) == "one");
    }
}

TEST_CASE("files are safetensors with as many elements as the model has, and checksums add up however a tensor was cut") {
    Folder const                         folder;
    std::map<std::string, std::uint64_t> sums[2];
    std::uint64_t                        elements = 0;
    for (int i = 0; i < 2; ++i) {
        fs::path const place =
            write(folder / std::to_string(i), i == 0 ? std::vector<std::size_t>{0, 1000} : std::vector<std::size_t>{0, 250, 600, 1000});
        auto const index = parse_index(read_text(place / "index.json", 1 << 20), "index");
        for (auto const& [name, tensor] : index.tensors)
            for (StoredPiece const& piece : tensor.pieces)
                for (std::uint64_t const sum : piece.checksums) sums[i][name] += sum;
        elements = 0;
        for (auto const& entry : fs::directory_iterator(place)) {
            if (entry.path().extension() != ".safetensors") continue;
            SafetensorsFile const file(entry.path());
            for (TensorInfo const& t : file.tensors()) elements += t.elements();
        }
        CHECK(elements == 30 + 30 + 3 + 1'500'000);
    }
    CHECK(sums[0] == sums[1]);
    SafetensorsFile const one(folder / "0/step-0000000012/state-00001-of-00001.safetensors");
    CHECK((one.tensor("master.a").shape == std::vector<std::uint64_t>{6, 5}));  // named and shaped as in the model
    auto const a = content("master.a", Dtype::f32, 30);
    CHECK(sums[0]["master.a"] == kernel::mixed_sum(4, a, 0));
}

TEST_CASE("latest names the newest, old ones go, one of the same version is replaced, and nothing unfinished remains") {
    Folder const   folder;
    fs::path const home = folder / "c";
    for (std::uint64_t const v : {3u, 6u, 9u, 12u}) write(home, {0, 1000}, 2, v);
    CHECK(test::read_all(home / "latest") == "step-0000000012\n");
    CHECK((detail::checkpoint_versions(home) == std::vector<std::uint64_t>{9, 12}));
    write(home, {0, 500, 1000}, 2, 9);  // a run that went back: later ones are not older
    CHECK(test::read_all(home / "latest") == "step-0000000009\n");
    CHECK((detail::checkpoint_versions(home) == std::vector<std::uint64_t>{9, 12}));
    CHECK(fs::exists(home / "step-0000000009/state-00002-of-00002.safetensors"));
    CHECK_FALSE(fs::exists(home / "step-0000000009/state-00001-of-00001.safetensors"));
    CHECK(newest_checkpoint(home) == home / "step-0000000009");
    CHECK(newest_checkpoint(home / "step-0000000012") == home / "step-0000000012");
    fs::remove(home / "latest");
    CHECK(newest_checkpoint(home) == home / "step-0000000012");
    write(home, {0, 1000}, 1, 15);
    CHECK((detail::checkpoint_versions(home) == std::vector<std::uint64_t>{15}));
    CHECK(std::distance(fs::directory_iterator(home), fs::directory_iterator()) == 2);
}

TEST_CASE("a run removes what it saved or continues, not what it does not") {
    Folder const   folder;
    fs::path const home = folder / "c";
    for (std::uint64_t const v : {10u, 20u, 30u}) write(home, {0, 1000}, 0, v);
    auto const publish = [&](CheckpointFolder& run, std::uint64_t v, std::size_t keep) {
        run.begin(v);
        Copy const copy = copy_of(0, {0, 1000});
        write_checkpoint_shard(run.unfinished(v), 0, 1, copy.pieces, copy.bytes);
        auto saved    = facts();
        saved.version = v;
        write_checkpoint_index(run.unfinished(v), 1, saved);
        CHECK(run.publish(v, keep).empty());
        return detail::checkpoint_versions(home);
    };
    using Versions = std::vector<std::uint64_t>;
    {
        CheckpointFolder back(home, [](std::uint64_t v, fs::path const& at) { return v <= 10 && run_of(at) == "one"; });  // goes back to 10
        CHECK(back.strange() == Versions{20, 30});
        CHECK(publish(back, 15, 2) == Versions{10, 15, 20, 30});
        CHECK(publish(back, 20, 2) == Versions{15, 20, 30});  // in the place of the other one
        CHECK(publish(back, 25, 2) == Versions{20, 25, 30});
    }
    CheckpointFolder fresh(home);
    CHECK(fresh.strange() == Versions{20, 25, 30});
    CHECK(publish(fresh, 3, 1) == Versions{3, 20, 25, 30});
    CHECK(publish(fresh, 6, 1) == Versions{6, 20, 25, 30});
    CHECK(newest_checkpoint(home) == home / "step-0000000006");
}

TEST_CASE("killed between the two names, the newer checkpoint is the newest, unless it is another run's") {
    for (bool const same_run : {true, false}) {
        Folder const   folder;
        fs::path const home = folder / "c";
        write(home, {0, 1000}, 2, 4);
        write(home, {0, 500, 1000}, 2, 6);
        folder.write("c/latest", "step-0000000004\n");
        folder.write("c/.latest.77.0.tmp", "step-0000000006\n");
        if (!same_run) {
            std::string text = test::read_all(home / "step-0000000004/index.json");
            text.replace(text.find("\"one\""), 5, "\"two\"");
            std::ofstream(home / "step-0000000004/index.json") << text;
        }
        fs::path const newest = home / (same_run ? "step-0000000006" : "step-0000000004");
        CHECK(newest_checkpoint(home) == newest);
        CHECK(fs::exists(home / ".latest.77.0.tmp"));  // who reads changes nothing
        CheckpointFolder const next(home);
        CHECK_FALSE(fs::exists(home / ".latest.77.0.tmp"));
        CHECK(test::read_all(home / "latest") == newest.filename().string() + '\n');
        CHECK(newest_checkpoint(home) == newest);
    }
}

TEST_CASE("what is no checkpoint is not replaced by one") {
    Folder const folder;
    folder.write("c/step-0000000012/model.bin", "somebody's");
    CHECK(mentions(refusal([&] { write(folder / "c", {0, 1000}); }), "step-0000000012: expected a checkpoint, or nothing of this name"));
    CHECK(test::read_all(folder / "c/step-0000000012/model.bin") == "somebody's");
    CHECK_FALSE(fs::exists(folder / "c/latest"));
}

TEST_CASE("a folder that was moved away, and another one in its place, are told") {
    Folder const     folder;
    CheckpointFolder home(folder / "c");
    home.begin(1);
    fs::rename(folder / "c", folder / "moved");
    CheckpointFolder const other(folder / "c");
    CHECK(mentions(refusal([&] { home.begin(2); }), "c: expected the folder that this run began to save to, found another one"));
    CHECK(mentions(refusal([&] { home.publish(1, 0); }), "c: expected the folder that this run began to save to, found another one"));
    CHECK(fs::is_empty(folder / "c"));
}

TEST_CASE("without `latest` too a checkpoint is not a link out of its folder") {
    Folder const   folder;
    fs::path const home = folder / "c";
    fs::create_directory(home);
    fs::create_directory_symlink(write(folder / "other", {0, 1000}), home / "step-0000000012");
    CHECK(mentions(refusal([&] { newest_checkpoint(home); }), "expected \"step-0000000012\" in the same directory, found a link to "));
}

TEST_CASE("what a killed run left goes at the next start, and a folder belongs to one run") {
    Folder const folder;
    write(folder / "c", {0, 1000});
    fs::create_directory(folder / "c/.step-0000000020.tmp");
    folder.write("c/.step-0000000020.tmp/state-00001-of-00001.safetensors", "half");
    folder.write("c/.latest.77.0.tmp", "st");
    folder.write("c/.mine", "not ours");
    CheckpointFolder home(folder / "c");
    CHECK_FALSE(fs::exists(folder / "c/.step-0000000020.tmp"));
    CHECK_FALSE(fs::exists(folder / "c/.latest.77.0.tmp"));
    CHECK(fs::exists(folder / "c/.mine"));
    CHECK(mentions(refusal([&] { CheckpointFolder const other(folder / "c"); }), "another one saves there"));
}

/// Two directories: a complete checkpoint, and another of its version under the name of an unfinished one.
struct Twins {
    Folder   folder;
    fs::path home = folder / "c", to = home / "step-0000000012", from = home / ".step-0000000012.tmp";

    Twins() {
        write(home, {0, 1000});
        fs::create_directory(from);
        std::ofstream(from / "index.json") << "the new one";
    }
    bool old_is_at(fs::path const& place) const { return fs::exists(place / "state-00001-of-00001.safetensors"); }
    bool new_is_at(fs::path const& place) const { return test::read_all(place / "index.json") == "the new one"; }
    auto entries() const { return std::distance(fs::directory_iterator(home), fs::directory_iterator()); }
};

TEST_CASE("where names cannot be exchanged, three renames do, and one that fails changes nothing") {
    Twins const twins;
    REQUIRE(detail::exchange_by_renames(twins.from, twins.to));
    CHECK((twins.old_is_at(twins.from) && twins.new_is_at(twins.to)));
    REQUIRE(detail::exchange_by_renames(twins.from, twins.to));
    CHECK((twins.old_is_at(twins.to) && twins.new_is_at(twins.from)));
    fs::remove_all(twins.from);
    CHECK_FALSE(detail::exchange_by_renames(twins.from, twins.to));
    CHECK(errno == ENOENT);
    CHECK(twins.old_is_at(twins.to));
    CHECK(twins.entries() == 2);
}

TEST_CASE("killed between the renames, the earlier checkpoint is read, and has its name again at the next start") {
    Twins const twins;
    fs::rename(twins.to, twins.home / ".step-0000000012.old.tmp");
    CHECK(newest_checkpoint(twins.home) == twins.home / ".step-0000000012.old.tmp");
    CHECK_NOTHROW(CheckpointReader(twins.home).check(expected()));
    { CheckpointFolder const home(twins.home); }
    CHECK(twins.old_is_at(twins.to));
    CHECK(newest_checkpoint(twins.home) == twins.to);
    CHECK(twins.entries() == 2);

    fs::create_directory(twins.home / ".step-0000000012.old.tmp");  // after the second rename
    { CheckpointFolder const home(twins.home); }
    CHECK(twins.old_is_at(twins.to));
    CHECK(twins.entries() == 2);
}

TEST_CASE("what cannot be published is taken back") {
    Twins const twins;
    {
        detail::Named const named(twins.from, twins.to);
        CHECK((twins.old_is_at(twins.from) && twins.new_is_at(twins.to)));
    }
    CHECK((twins.old_is_at(twins.to) && twins.new_is_at(twins.from)));
    {
        detail::Named const named(twins.from, twins.home / "step-0000000013");
        CHECK(twins.new_is_at(twins.home / "step-0000000013"));
    }
    CHECK(twins.new_is_at(twins.from));
    CHECK_FALSE(fs::exists(twins.home / "step-0000000013"));

    CheckpointFolder home(twins.home);
    home.begin(13);
    fs::remove(twins.home / "latest");
    fs::create_directory(twins.home / "latest");
    CHECK(mentions(refusal([&] { home.publish(13, 0); }), "latest: cannot be written"));
    home.discard(13);
    CHECK(twins.old_is_at(twins.to));
    CHECK(twins.entries() == 2);
}

TEST_CASE("a folder that was made and never used goes again") {
    Folder const folder;
    { CheckpointFolder const home(folder / "a/b"); }
    CHECK(folder.entries() == 0);
    folder.write("file", "x");
    CHECK(mentions(refusal([&] { CheckpointFolder const home(folder / "file/c"); }), "cannot be made a directory"));
}

TEST_CASE("ranks whose pieces do not make up the tensors write no index") {
    Folder const     folder;
    CheckpointFolder home(folder / "c");
    home.begin(version);
    Copy const copy = copy_of(0, {0, 400, 1000});
    for (std::size_t rank = 0; rank < 2; ++rank) write_checkpoint_shard(home.unfinished(version), rank, 2, copy.pieces, copy.bytes);
    CHECK(mentions(refusal([&] { write_checkpoint_index(home.unfinished(version), 2, facts()); }), "overlap"));
    CHECK_FALSE(fs::exists(home.unfinished(version) / "index.json"));
}

/// A change to the index, or to a file of the checkpoint, and what the refusal says besides the file's name.
struct Wrong {
    std::function<void(Json&)>           index;
    std::function<void(fs::path const&)> files;
    std::string                          says;
    std::string                          names = "index.json";
};

std::vector<Wrong> wrongs() {
    auto const in = [](std::function<void(Json&)> change, std::string says, std::string names = "index.json") {
        return Wrong{std::move(change), {}, std::move(says), std::move(names)};
    };
    auto const file = [](std::function<void(fs::path const&)> change, std::string names, std::string says) {
        return Wrong{{}, std::move(change), std::move(says), std::move(names)};
    };
    auto const        piece = [](Json& j, std::size_t i = 0) -> Json& { return j["tensors"]["master.a"]["pieces"][i]; };
    std::string const first = "state-00001-of-00002.safetensors";
    return {
        in([](Json& j) { j["format"] = "other"; }, "\"format\" must be \"lockstep checkpoint\", found \"other\""),
        in([](Json& j) { j["format_version"] = 2; }, "\"format_version\" must be 1, found 2"),
        in([](Json& j) { j.erase("format"); }, "\"format\" must be a string, found nothing"),
        in([](Json& j) { j["extra"] = 1; }, "\"extra\" is not a key"),
        in([](Json& j) { j["version"] = -1; }, "\"version\" must be an unsigned integer, found -1"),
        in([](Json& j) { j["version"] = 1.5; }, "\"version\" must be an unsigned integer, found 1.5"),
        in([](Json& j) { j["version"] = 1ull << 40; }, "\"version\" must be at most 4294967295"),
        in([](Json& j) { j["seed"] = "7"; }, "\"seed\" must be an unsigned integer, found \"7\""),
        in([](Json& j) { j["loss_scale"]["scale"] = 0; }, "\"scale\" must be from 2^-126"),
        in([](Json& j) { j["loss_scale"]["scale"] = -4.0; }, "\"scale\" must be from 2^-126"),
        in([](Json& j) { j["loss_scale"].erase("clean_steps"); }, "\"clean_steps\" must be an unsigned integer, found nothing"),
        in([](Json& j) { j["position"]["next_sample"] = nullptr; }, "\"next_sample\" must be an unsigned integer, found null"),
        in([](Json& j) { j["position"]["next_sample"] = 1ull << 63; }, "\"next_sample\" must be below 2^63, found 9223372036854775808"),
        in([](Json& j) { j["position"]["skipped_in_a_row"] = 1ull << 32; }, "\"skipped_in_a_row\" must be at most 4294967295"),
        in([](Json& j) { j["position"]["other"] = 1; }, "\"other\" is not a key"),
        in(
            [](Json& j) {
                j["configuration"] = Json::array({Json::array({"a", 1})});
            },
            "\"configuration\" must hold pairs of texts"),
        in([](Json& j) { j["configuration"] = 3; }, "\"configuration\" must be an array of pairs, found 3"),
        in([](Json& j) { j["checksum_elements"] = 4; }, "\"checksum_elements\" must be 1048576, found 4"),
        in([](Json& j) { j["tensors"] = 3; }, "\"tensors\" must be an object, found 3"),
        in([](Json& j) { j["tensors"]["master.a"] = 3; }, "tensor \"master.a\": expected a JSON object, found 3"),
        in([](Json& j) { j["tensors"]["master.a"]["dtype"] = "F8_E4M3"; }, "\"dtype\" must be a supported type, found F8_E4M3"),
        in([](Json& j) { j["tensors"]["master.a"]["dtype"] = "BF16"; }, "expected dtype BF16, found F32", "safetensors"),
        in(
            [](Json& j) {
                j["tensors"]["master.a"]["shape"] = {6, -5};
            },
            "\"shape\" must hold unsigned integers below 2^64, found -5"),
        in(
            [](Json& j) {
                j["tensors"]["master.a"]["shape"] = {6, 1ull << 63};
            },
            "\"shape\" must be one whose bytes fit 63 bits"),
        in(
            [](Json& j) {
                j["tensors"]["master.a"]["shape"] = {7, 5};
            },
            "expected pieces of 35 elements as its shape [7,5] says, found 30"),
        in(
            [](Json& j) {
                j["tensors"]["master.a"]["shape"] = {5, 6};
            },
            "expected shape [6,5], found [5,6]"),
        in([](Json& j) { j["tensors"].erase("master.a"); }, "expected in ", "safetensors"),
        in([](Json& j) { j["tensors"]["master.a"].erase("pieces"); }, "\"pieces\" must be an array, found nothing"),
        in([](Json& j) { j["tensors"]["master.a"]["pieces"].erase(0); }, "expected a piece that begins at element 0, found [15, 30]"),
        in([](Json& j) { j["tensors"]["master.a"]["pieces"].erase(1); },
           "expected pieces of 30 elements as its shape [6,5] says, found 15"),
        in(
            [=](Json& j) {
                piece(j)["range"] = {0, 14};
            },
            "expected a piece that begins at element 14, found [15, 30]"),
        in(
            [=](Json& j) {
                piece(j)["range"] = {0, 16};
            },
            "(overlap)"),
        in(
            [=](Json& j) {
                piece(j)["range"] = {0, 15, 16};
            },
            "\"range\" must be two numbers, found 3"),
        in(
            [=](Json& j) {
                piece(j)["range"] = {3, 3};
            },
            "\"range\" must not be empty"),
        in(
            [=](Json& j) {
                piece(j)["range"] = {0, ~0ull};
            },
            "\"checksums\" must be "),
        in(
            [=](Json& j) {
                piece(j)["range"] = {15, 0};
            },
            "\"range\" must not be empty, found [15, 0]"),
        in([=](Json& j) { piece(j)["checksums"] = Json::array(); }, "\"checksums\" must be 1 for the range [0, 15], found 0"),
        in([=](Json& j) { piece(j)["checksums"][0] = "12"; }, "\"checksums\" must hold texts of 16 hexadecimal digits, found \"12\""),
        in([=](Json& j) { piece(j)["checksums"][0] = 7; }, "16 hexadecimal digits, found 7"),
        in([=](Json& j) { piece(j)["checksums"][0] = "0123456789abcdef"; }, "expected the checksum 0123456789abcdef, found ",
           "safetensors"),
        in([=](Json& j) { piece(j)["file"] = "../" + piece(j)["file"].get<std::string>(); }, "expected a name in the same directory"),
        in([=](Json& j) { piece(j)["file"] = "/etc/passwd"; }, "expected a name in the same directory, found \"/etc/passwd\""),
        in([=](Json& j) { piece(j)["file"] = ".."; }, "expected a name in the same directory"),
        in([=](Json& j) { piece(j)["file"] = ""; }, "expected a name in the same directory"),
        in([=](Json& j) { piece(j)["file"] = "none.safetensors"; }, "expected \"none.safetensors\" beside it: No such file"),
        in([=](Json& j) { piece(j)["file"] = "index.json"; }, "header too large"),
        in([=](Json& j) { piece(j)["file"] = piece(j, 1)["file"]; }, "is used twice", "safetensors"),
        in([=](Json& j) { piece(j)["name"] = "stranger"; }, "tensor \"stranger\": expected by "),
        in([=](Json& j) { piece(j)["extra"] = 1; }, "\"extra\" is not a key"),
        file([=](fs::path const& p) { fs::remove(p / first); }, first, "expected \"" + first + "\" beside it: No such file"),
        file([=](fs::path const& p) { fs::resize_file(p / first, fs::file_size(p / first) - 1); }, first, "(truncated)"),
        file([=](fs::path const& p) { fs::resize_file(p / first, 0); }, first, "found only 0 bytes"),
        file([=](fs::path const& p) { fs::resize_file(p / first, fs::file_size(p / first) + 4); }, first, "(trailing bytes)"),
        file(
            [=](fs::path const& p) {
                fs::rename(p / first, p.parent_path() / "outside");
                fs::create_symlink("../outside", p / first);
            },
            first, "found a link to"),
        file(
            [=](fs::path const& p) {
                fs::remove(p / first);
                fs::create_directory(p / first);
            },
            first, "found a directory"),
        file(
            [=](fs::path const& p) {
                auto bytes = test::read_all(p / first);
                bytes[bytes.size() - 5] ^= 1;
                std::ofstream(p / first, std::ios::binary) << bytes;
            },
            first, "expected the checksum "),
        file([](fs::path const& p) { std::ofstream(p / "index.json") << "{\"format\":"; }, "index.json", "expected JSON"),
        file([](fs::path const& p) { std::ofstream(p / "index.json") << "[]"; }, "index.json", "expected a JSON object, found []"),
        file([](fs::path const& p) { std::ofstream(p / "index.json") << R"({"version":1,"version":2})"; }, "index.json",
             "duplicate key \"version\""),
        file([](fs::path const& p) { std::ofstream(p / "index.json") << ""; }, "index.json", "expected JSON"),
        file([](fs::path const& p) { fs::remove(p / "index.json"); }, "index.json", "expected a file that can be read"),
        file([](fs::path const& p) { std::ofstream(p.parent_path() / "latest") << "../c/step-0000000012"; }, "latest",
             "expected a name in the same directory"),
        file([](fs::path const& p) { std::ofstream(p.parent_path() / "latest") << "step-0000000099\n"; }, "latest",
             "expected \"step-0000000099\" beside it: No such file"),
        file([](fs::path const& p) { std::ofstream(p.parent_path() / "latest") << ""; }, "latest", "found \"\""),
        file([](fs::path const& p) { std::ofstream(p.parent_path() / "latest") << std::string(5000, 'x'); }, "latest",
             "expected at most 4096 bytes"),
        file([](fs::path const& p) { std::ofstream(p.parent_path() / "latest") << "latest"; }, "latest",
             "expected a directory, found a file"),
        file([](fs::path const& p) { fs::resize_file(p / "index.json", 128'000'001); }, "index.json", "expected at most 128000000 bytes"),
        file(
            [](fs::path const& p) {
                fs::rename(p / "index.json", p.parent_path() / "other.json");
                fs::create_symlink("../other.json", p / "index.json");
            },
            "index.json", "expected \"index.json\" in the same directory, found a link to"),
        file(
            [](fs::path const& p) {
                fs::rename(p.parent_path() / "latest", p.parent_path().parent_path() / "newest");
                fs::create_symlink("../newest", p.parent_path() / "latest");
            },
            "latest", "expected \"latest\" in the same directory, found a link to"),
    };
}

TEST_CASE("a checkpoint that is not what it must be is refused by a sentence that names the file") {
    for (Wrong const& wrong : wrongs()) {
        Folder const   folder;
        fs::path const place = write(folder / "c", {0, 500, 1000});
        if (wrong.index) {
            Json json = parse_json(test::read_all(place / "index.json"), "index");
            json.erase("checksum");
            wrong.index(json);
            std::ofstream(place / "index.json") << json.dump();
        }
        if (wrong.files) wrong.files(place);
        std::string const said = refusal([&] {
            CheckpointReader reader(folder / "c");
            reader.check(expected());
            for (Tensor const& t : tensors()) read_whole(reader, t, {{0, t.elements()}});
        });
        CAPTURE(wrong.says);
        CAPTURE(said);
        CHECK(mentions(said, wrong.says));
        CHECK(mentions(said, wrong.names));
        CHECK(mentions(said, folder.path().string()));
        CHECK_FALSE(mentions(said, "\n"));
    }
}

TEST_CASE("a folder without a checkpoint, a file and nothing are refused") {
    Folder const folder;
    fs::create_directory(folder / "empty");
    folder.write("file", "x");
    CHECK(mentions(refusal([&] { newest_checkpoint(folder / "empty"); }), "empty: expected a checkpoint"));
    CHECK(mentions(refusal([&] { newest_checkpoint(folder / "file"); }), "file: expected a folder of checkpoints, found a file"));
    CHECK(mentions(refusal([&] { newest_checkpoint(folder / "none"); }), "none: expected a folder of checkpoints, found nothing"));
}

TEST_CASE("a model of other tensors is refused") {
    Folder const           folder;
    CheckpointReader const reader(write(folder / "c", {0, 1000}));
    auto                   more = expected();
    more.push_back({"master.c", Dtype::f32, {2}});
    CHECK(mentions(refusal([&] { reader.check(more); }), "expected the tensor \"master.c\", not found"));
    auto fewer = expected();
    fewer.pop_back();
    CHECK(mentions(refusal([&] { reader.check(fewer); }), "expected no tensor \"master.large\", found one"));
    auto other     = expected();
    other[1].dtype = Dtype::f32;
    CHECK(mentions(refusal([&] { reader.check(other); }), "tensor \"optimizer.0.a\": expected dtype F32, found BF16"));
}

TEST_CASE("an index that nobody could read is not written, and the checkpoint has no name") {
    Folder const     folder;
    CheckpointFolder home(folder / "c");
    home.begin(version);
    Copy const copy = copy_of(0, {0, 1000});
    write_checkpoint_shard(home.unfinished(version), 0, 1, copy.pieces, copy.bytes);
    auto const found = refusal([&] { write_checkpoint_index(home.unfinished(version), 1, facts(), 1000); });
    CHECK_MESSAGE(mentions(found, "index.json: expected an index of at most 1000 bytes, which is all that is read, found "), found);
    CHECK_FALSE(fs::exists(home.unfinished(version) / "index.json"));
}

TEST_CASE("a digit of an index that has changed is seen, wherever it is; without its checksum an index is taken as it is") {
    Folder const      folder;
    std::string const sound = test::read_all(write(folder / "c", {0, 1000}) / "index.json");
    CHECK_NOTHROW(parse_index(sound, "index"));
    std::size_t seen = 0;
    for (std::string const before : {"\"next_sample\": 1234", "\"skipped_in_a_row\": 5", "\"clean_steps\": 7", "\"version\": 12"}) {
        std::string       text = sound;
        std::size_t const at   = text.find(before);
        REQUIRE(at != std::string::npos);
        text[at + before.size() - 1] ^= 1;
        seen += mentions(refusal([&] { parse_index(text, "index"); }), "index: expected contents of checksum ") ? 1u : 0u;
    }
    CHECK(seen == 4);
    Json edited = Json::parse(sound);
    edited.erase("checksum");
    edited["position"]["next_sample"] = 24;
    CHECK(parse_index(edited.dump(), "index").facts.position.next_sample == 24);
}

}  // namespace checkpoint_test
