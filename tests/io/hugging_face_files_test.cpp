#include <doctest/doctest.h>

#include <array>

#include "../folder.hpp"
#include "lockstep/io/hugging_face_files.hpp"
#include "lockstep/io/safetensors_writer.hpp"

namespace hugging_face_files_test {

using namespace lockstep;
using namespace lockstep::io;
using test::Folder;
using test::mentions;
using test::refusal;

/// A file whose tensors, each of one element, have these values.
void shard(std::filesystem::path const& path, std::vector<std::pair<std::string, float>> const& tensors) {
    std::vector<TensorPlan> plans;
    for (auto const& [name, value] : tensors) plans.push_back({name, Dtype::f32, {1}});
    SafetensorsWriter writer(path, plans);
    for (auto const& [name, value] : tensors) writer.append(name, std::span(&value, 1));
    writer.commit();
}

float value(TensorFiles const& files, std::string const& name) {
    TensorSource const source = files.tensors().at(name);
    float              result = 0;
    files.file(source).read_range(files.info(source), 0, std::span(&result, 1));
    return result;
}

char const* const index_name = "model.safetensors.index.json";

TEST_CASE("a file, a directory with one file and a directory with shards are read alike") {
    Folder const folder;
    shard(folder / "one.safetensors", {{"a", 1.f}, {"b", 2.f}});
    CHECK(value(TensorFiles(folder / "one.safetensors"), "b") == 2.f);
    CHECK(refusal([&] { TensorFiles{folder.path()}; }) ==
          folder.path().string() + ": expected model.safetensors or model.safetensors.index.json, found neither");
    shard(folder / "model-00001-of-00002.safetensors", {{"a", 3.f}});
    shard(folder / "model-00002-of-00002.safetensors", {{"b", 4.f}});
    folder.write(
        index_name,
        R"({"metadata":{"total_size":8},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
    TensorFiles const files(folder.path());
    CHECK(value(files, "a") == 3.f);
    CHECK(value(files, "b") == 4.f);
    CHECK(files.name() == (folder / index_name).string());
    shard(folder / "model.safetensors", {{"a", 5.f}});  // goes before the index
    CHECK(value(TensorFiles(folder.path()), "a") == 5.f);
}

TEST_CASE("a tensor is taken from the shard that the index names, not from a stale copy") {
    Folder const folder;
    shard(folder / "1", {{"a", 1.f}, {"b", -1.f}});
    shard(folder / "2", {{"a", -1.f}, {"b", 2.f}});
    folder.write(index_name, R"({"weight_map":{"a":"1","b":"2"}})");
    TensorFiles const files(folder.path());
    CHECK(value(files, "a") == 1.f);
    CHECK(value(files, "b") == 2.f);
}

TEST_CASE("an index that is wrong is refused with its name and the fault") {
    struct Case {
        std::string text, says;
    };
    Folder const folder, outside;
    shard(folder / "1", {{"a", 1.f}, {"b", 1.f}});
    shard(outside / "2", {{"c", 1.f}});
    std::filesystem::create_symlink(outside / "2", folder / "link");
    std::filesystem::create_symlink("1", folder / "inner");
    std::filesystem::create_symlink("loop", folder / "loop");
    std::filesystem::create_directory(folder / "sub");
    std::string const out = outside.path().filename().string();
    for (auto const& [text, says] : {
             Case{"", "expected JSON"},
             {"[]", "expected a JSON object, found []"},
             {"{}", "\"weight_map\" must be an object, found nothing"},
             {R"({"weight_map":[]})", "\"weight_map\" must be an object, found []"},
             {R"({"weight_map":{"a":7}})", "\"a\" must be a string, found 7"},
             {R"({"weight_map":{"a":"1","a":"1","b":"1"}})", "duplicate key \"a\""},
             {R"({"metadata":8,"weight_map":{"a":"1","b":"1"}})", "\"metadata\" must be an object, found 8"},
             {R"({"weight_maps":{},"weight_map":{"a":"1","b":"1"}})", "\"weight_maps\" is not a key of an index"},
             {R"({"weight_map":{"a":"1"}})", "1: tensor \"b\": expected in "},
             {R"({"weight_map":{"a":"1","b":"1","c":"1"}})", "1: tensor \"c\": expected by "},
             {R"({"weight_map":{"a":"1","b":"3"}})", "shard \"3\": expected a file that can be read, found: No such file or directory"},
             {R"({"weight_map":{"a":"../)" + out + R"(/2"}})", "must hold names of files in the same directory, found \"../"},
             {R"({"weight_map":{"a":")" + (outside / "2").string() + R"("}})", "must hold names of files in the same directory, found \"/"},
             {R"({"weight_map":{"a":"sub/../1"}})", "must hold names of files in the same directory"},
             {R"({"weight_map":{"a":"./1"}})", "must hold names of files in the same directory"},
             {R"({"weight_map":{"a":".."}})", "must hold names of files in the same directory, found \"..\""},
             {R"({"weight_map":{"a":"."}})", "must hold names of files in the same directory, found \".\""},
             {R"({"weight_map":{"a":""}})", "must hold names of files in the same directory, found \"\""},
             {R"({"weight_map":{"a":"1\u0000"}})", "must hold names of files in the same directory, found \"1\\x00\""},
             {R"({"weight_map":{"a":"..\\1"}})", "must hold names of files in the same directory"},
             {R"({"weight_map":{"a":"link"}})", "shard \"link\": expected in the same directory, found a link to "},
             {R"({"weight_map":{"a":"loop"}})", "shard \"loop\": expected a file that can be read"},
             {R"({"weight_map":{"a":"sub"}})", "sub: expected a regular file, found a directory"},
             {R"({"weight_map":{"a":")" + std::string(index_name) + R"("}})", "header too large"},
             {"{\"weight_map\":" + std::string(100, '['), "nested deeper than 64 levels"},
         }) {
        folder.write(index_name, text);
        std::string const said     = refusal([&] { TensorFiles{folder.path()}; });
        auto const&       expected = says;
        CAPTURE(said);
        CAPTURE(expected);
        CHECK(mentions(said, folder.path().string()));
        CHECK(mentions(said, expected));
        CHECK(said.find('\n') == std::string::npos);
    }
    folder.write(index_name, R"({"weight_map":{"a":"inner","b":"1"}})");
    CHECK(value(TensorFiles(folder.path()), "a") == 1.f);
}

TEST_CASE("links into the blobs of a hub cache are inside") {
    Folder const folder;
    std::filesystem::create_directories(folder / "snapshots/abc");
    std::filesystem::create_directories(folder / "blobs");
    shard(folder / "blobs/123", {{"a", 1.f}});
    std::filesystem::create_symlink("../../blobs/123", folder / "snapshots/abc/1");
    folder.write(std::string("snapshots/abc/") + index_name, R"({"weight_map":{"a":"1"}})");
    CHECK(value(TensorFiles(folder / "snapshots/abc"), "a") == 1.f);
}

}  // namespace hugging_face_files_test
