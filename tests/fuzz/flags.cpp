#include <vector>

#include "settings.hpp"
#include "target.hpp"

namespace lockstep::fuzz {

/// The command line of train_gpt, a word a line.
void take_flags(std::string_view bytes) {
    std::vector<std::string> words{"train_gpt"};
    for (std::size_t begin = 0; begin < bytes.size() && words.size() < 100;) {
        std::size_t const end = std::min(bytes.find('\n', begin), bytes.size());
        words.emplace_back(bytes.substr(begin, end - begin));
        begin = end + 1;
    }
    std::vector<char const*> arguments;
    for (std::string const& word : words) arguments.push_back(word.c_str());
    train_gpt::Settings settings;
    if (!accepts("--", [&] { settings = train_gpt::parse(static_cast<int>(arguments.size()), arguments.data()); })) return;
    expect(!settings.help.empty() || settings.sequence <= settings.sizes.sequence, "a sequence fits into the model");
    expect(!settings.help.empty() || !settings.listed.empty(), "settings that ranks can compare");
}

}  // namespace lockstep::fuzz
