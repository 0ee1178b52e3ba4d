#include "lockstep/core/escape.hpp"

#include "lockstep/io/file.hpp"
#include "target.hpp"

namespace lockstep::fuzz {

/// Text on its way to a terminal: whatever it was, what is shown is text, and showing it twice changes nothing.
void take_escape(std::string_view bytes) {
    std::string const once = escaped(bytes), lines = escaped(bytes, Keep::lines), cut = io::printable(bytes, 20);
    expect(escaped(once) == once, "escaped text stays as it is");
    expect(escaped(lines, Keep::lines) == lines, "escaped lines stay as they are");
    expect(std::all_of(cut.begin(), cut.end(), [](char c) { return c >= 0x20 && c < 0x7F; }), "printable text is ASCII");
    expect(cut.size() <= 4 * 20 + 3, "printable text is short");
}

}  // namespace lockstep::fuzz
