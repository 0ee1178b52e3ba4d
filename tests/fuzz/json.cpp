#include "lockstep/io/json.hpp"
#include "target.hpp"

namespace lockstep::fuzz {

/// Any JSON, each value of its top object taken as each type.
void take_json(std::string_view bytes) {
    io::Json json;
    if (!accepts("input.json", [&] { json = io::parse_json(bytes, "input.json"); })) return;
    if (!accepts("input.json", [&] { io::JsonObject(json, "input.json"); })) return;
    io::JsonObject const object(json, "input.json");
    for (auto const& item : json.items()) {
        accepts("input.json", [&] { object.unsigned_integer(item.key()); });
        accepts("input.json", [&] { object.number(item.key(), 1.0); });
        accepts("input.json", [&] { object.boolean(item.key()); });
        accepts("input.json", [&] { object.string(item.key(), "text"); });
        accepts("input.json", [&] { object.object(item.key()); });
    }
}

}  // namespace lockstep::fuzz
