#include "lockstep/data/tokens.hpp"

#include "lockstep/data/windows.hpp"
#include "target.hpp"

namespace lockstep::fuzz {

/// A token shard, or text where the input begins with an odd byte; the other bits choose a vocabulary. Every full window is read.
void take_tokens(std::string_view bytes) {
    static MemoryFile const      file;
    static constexpr std::size_t vocabularies[]{1, 2, 97, 256, 50257, 65536, 65537, 0x7FFFFFFF};
    std::uint8_t const           chosen     = choice(bytes);
    std::size_t const            vocabulary = vocabularies[chosen / 2 % std::size(vocabularies)];
    file.hold(bytes);
    accepts(file.path(), [&] {
        data::Tokens const tokens = chosen % 2 != 0 ? data::Tokens::text(file.path()) : data::Tokens::shard(file.path());
        expect(tokens.size() * tokens.width() <= bytes.size(), "tokens lie in the file");
        tokens.check_vocabulary(vocabulary);
        static_cast<void>(tokens.checksum());
        data::Tokens const held_out = data::hold_out(tokens, 0.25).held_out;
        for (data::Batch const& batch : data::EvaluationWindows(held_out, {.sequence = 3, .batch = 2, .vocabulary = vocabulary}))
            for (std::int32_t const id : batch.tokens)
                expect(id >= 0 && static_cast<std::size_t>(id) < vocabulary, "an id is below the vocabulary");
    });
}

}  // namespace lockstep::fuzz
