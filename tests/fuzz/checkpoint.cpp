#include <optional>

#include "lockstep/io/checkpoint_reader.hpp"
#include "safetensors_bytes.hpp"
#include "target.hpp"

namespace lockstep::fuzz {

namespace {

std::string sound_shard() {
    return safetensors_bytes(
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", "aaaabbbbcccc");
}

io::CheckpointIndex sound_index() {
    auto const          sum = [](std::string_view data) { return kernel::mixed_sum(4, std::as_bytes(std::span(data)), 0); };
    io::CheckpointIndex index;
    index.facts.written_by = "a fuzz target";
    index.facts.version    = 1;
    index.facts.loss_scale = io::SavedLossScale{1024, 7};
    index.tensors["a"]     = {io::Dtype::f32, {1, 2}, {{"state-00001-of-00001.safetensors", "a", {0, 2}, {sum("aaaabbbb")}}}};
    index.tensors["b"]     = {io::Dtype::f32, {1}, {{"state-00001-of-00001.safetensors", "b", {0, 1}, {sum("cccc")}}}};
    return index;
}

/// A folder with a sound checkpoint, one that was set aside, and a link out of it.
struct Saved {
    Folder                     folder;
    std::array<std::string, 3> sound{io::index_text(sound_index()), sound_shard(), "step-0000000001\n"};
    std::filesystem::path complete = folder / (std::filesystem::create_directories(folder / "in/step-0000000001"), "in/step-0000000001");
    std::array<MemoryFile, 3> files{MemoryFile(complete / "index.json"), MemoryFile(complete / "state-00001-of-00001.safetensors"),
                                    MemoryFile(folder / "in/latest")};

    Saved() {
        for (std::size_t i = 0; i < files.size(); ++i) files[i].hold(sound[i]);
        folder.write("in/.step-0000000002.old.tmp/index.json", sound[0]);
        folder.write("in/.step-0000000002.old.tmp/state-00001-of-00001.safetensors", sound[1]);
        folder.write("out/index.json", sound[0]);
        std::filesystem::create_symlink("../out", folder / "in/step-0000000003");
        std::filesystem::create_symlink("../../out/index.json", complete / "link");
    }
};

}  // namespace

/// A folder of checkpoints in which the input stands for one file: by its first byte the index, the shard or `latest`.
void take_checkpoint(std::string_view bytes) {
    static Saved const saved;
    std::size_t const  replaced = choice(bytes) % 3;
    saved.files[replaced].hold(bytes);
    accepts(saved.folder.path().string(), [&] {
        io::CheckpointReader reader(saved.folder / "in");
        io::CheckpointIndex  index = io::parse_index(io::read_text(reader.name(), io::checkpoint_index_limit), reader.name());
        for (auto const& [name, tensor] : index.tensors) {
            std::array<Range, 1> const whole{Range{0, tensor.elements()}};
            std::size_t const          width = io::bytes(tensor.dtype);
            std::size_t                read  = 0;
            reader.read(name, whole, [&](Range part, std::span<std::byte const> elements) {
                expect(elements.size() == part.size() * width, "a part has the bytes of its elements");
                read += part.size();
            });
            expect(read == tensor.elements(), "a tensor is read whole");
        }
    });
    saved.files[replaced].hold(saved.sound[replaced]);
}

}  // namespace lockstep::fuzz
