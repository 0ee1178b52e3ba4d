#include "lockstep/io/safetensors.hpp"

#include "target.hpp"

namespace lockstep::fuzz {

/// A safetensors file, and both ends of every tensor that it promises.
void take_safetensors(std::string_view bytes) {
    static MemoryFile const file;
    file.hold(bytes);
    accepts(file.path(), [&] {
        io::SafetensorsFile const weights(file.path());
        std::uint64_t             end = 0;
        for (io::TensorInfo const& tensor : weights.tensors()) {
            std::array<std::byte, 64> raw;
            std::array<float, 8>      values;
            std::uint64_t const       count = std::min<std::uint64_t>(tensor.elements(), values.size());
            expect(weights.find(tensor.name) == &tensor, "a tensor is found by its name");
            for (std::uint64_t const first : {std::uint64_t{0}, tensor.elements() - count}) {
                weights.read_raw(tensor, first, std::span(raw).first(count * io::bytes(tensor.dtype)));
                if (io::floating(tensor.dtype)) weights.read_range(tensor, first, std::span(values).first(count));
            }
            end = std::max(end, tensor.end);
        }
        expect(end <= bytes.size(), "tensors lie in the file");
    });
}

}  // namespace lockstep::fuzz
