#include "lockstep/io/hugging_face_files.hpp"

#include "safetensors_bytes.hpp"
#include "target.hpp"

namespace lockstep::fuzz {

namespace {

/// Shards with tensors a, b and c, a link out of the folder, and a model.safetensors.index.json that holds the input.
struct Model {
    Model() {
        folder.write("out.safetensors", safetensors_bytes(R"({"d":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "d"));
        folder.write("in/1.safetensors", safetensors_bytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                                           R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                                           "ab"));
        folder.write("in/2.safetensors", safetensors_bytes(R"({"c":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", "cccc"));
        folder.write("in/broken", "{}");
        std::filesystem::create_symlink("../out.safetensors", folder / "in/link");
    }
    Folder     folder;
    MemoryFile index{folder / (std::filesystem::create_directory(folder / "in"), "in/model.safetensors.index.json")};
};

}  // namespace

/// The index of a model in shards.
void take_hugging_face_index(std::string_view bytes) {
    static Model const model;
    model.index.hold(bytes);
    accepts(model.folder.path().string(), [&] {
        io::TensorFiles const files(model.folder / "in");
        for (auto const& [name, source] : files.tensors()) expect(files.info(source).name == name, "a name leads to its tensor");
        expect(!files.tensors().contains("d"), "nothing outside the folder is read");
    });
}

}  // namespace lockstep::fuzz
