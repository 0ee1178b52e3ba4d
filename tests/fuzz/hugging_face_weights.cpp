#include <vector>

#include "../io/units.hpp"
#include "lockstep/io/hugging_face_reader.hpp"
#include "target.hpp"

namespace lockstep::fuzz {

namespace {

struct Wanted {
    explicit Wanted(state::ModelSizes const& of) : sizes(of), units(test::units(of)) {}
    state::ModelSizes        sizes;
    std::vector<state::Unit> units;
};

}  // namespace

/// The weights of a small gpt2 model, or those of a llama model where the input begins with an odd byte.
void take_hugging_face_weights(std::string_view bytes) {
    static Wanted const     gpt2({.layers = 1, .heads = 1, .kv_heads = 1, .dim = 2, .ffn = 3, .vocab = 5, .sequence = 2});
    static Wanted const     llama({.arch     = state::Architecture::llama,
                                   .layers   = 1,
                                   .heads    = 2,
                                   .kv_heads = 1,
                                   .dim      = 4,
                                   .ffn      = 3,
                                   .vocab    = 5,
                                   .sequence = 2,
                                   .tied     = false});
    static MemoryFile const file;
    Wanted const&           wanted = choice(bytes) % 2 != 0 ? llama : gpt2;
    file.hold(bytes);
    accepts(file.path(), [&] {
        io::check_layers(file.path(), wanted.sizes);
        io::HuggingFaceReader const reader(file.path(), wanted.sizes, wanted.units);
        std::vector<float>          values;
        for (state::Unit const& unit : wanted.units)
            for (state::Parameter const& parameter : unit.parameters) {
                values.resize(parameter.rows * parameter.columns);
                reader.read(parameter, {0, parameter.rows}, values);
            }
    });
}

}  // namespace lockstep::fuzz
