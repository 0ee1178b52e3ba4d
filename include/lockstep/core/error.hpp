#pragma once
// One error type. Its fault says who has to act; its sentence says what was expected and what was found.

#include <sstream>
#include <stdexcept>
#include <string>

namespace lockstep {

/// Who has to act, with the exit code of a program that ends because of it.
enum class Fault {
    input    = 2,  // a flag, a file or an argument cannot be used
    peer     = 3,  // a rank failed, timed out, or the ranks disagree
    training = 4,  // the numbers themselves failed
};

class Error : public std::runtime_error {
public:
    Error(Fault fault, std::string const& sentence) : std::runtime_error(sentence), fault_(fault) {}
    Fault fault() const noexcept { return fault_; }

private:
    Fault fault_;
};

/// Joins its arguments into one sentence, as `operator<<` prints them.
template <class... Parts>
std::string sentence(Parts const&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

template <class... Parts>
[[noreturn]] void input_error(Parts const&... parts) {
    throw Error(Fault::input, sentence(parts...));
}

template <class... Parts>
[[noreturn]] void peer_error(Parts const&... parts) {
    throw Error(Fault::peer, sentence(parts...));
}

template <class... Parts>
[[noreturn]] void training_error(Parts const&... parts) {
    throw Error(Fault::training, sentence(parts...));
}

}  // namespace lockstep
