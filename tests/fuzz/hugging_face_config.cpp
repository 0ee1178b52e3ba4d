#include "lockstep/io/hugging_face_config.hpp"

#include "target.hpp"

namespace lockstep::fuzz {

/// A config.json; one that is accepted says the same when it is written and read again.
void take_hugging_face_config(std::string_view bytes) {
    state::ModelSizes sizes;
    if (accepts("config.json", [&] { sizes = io::parse_config(bytes, "config.json"); }))
        expect(io::parse_config(io::config_text(sizes), "again") == sizes, "a config.json that is written says what was read");
}

}  // namespace lockstep::fuzz
