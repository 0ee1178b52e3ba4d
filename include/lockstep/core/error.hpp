#pragma once
// One error type. Its fault says who has to act; its sentence says what was expected and what was found.

#include <initializer_list>
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

/// A part of a sentence: a reference to a value, with how to print it. Lives no longer than the full expression that made it.
class SentencePart {
public:
    SentencePart(char const* text) noexcept : value_(text), print_(print_text) {}
    template <class T>
    SentencePart(T const& value) noexcept : value_(&value), print_(print_value<T>) {}

    friend std::ostream& operator<<(std::ostream& out, SentencePart const& part) {
        part.print_(out, part.value_);
        return out;
    }

private:
    static void print_text(std::ostream& out, void const* text) { out << static_cast<char const*>(text); }
    template <class T>
    static void print_value(std::ostream& out, void const* value) {
        out << *static_cast<T const*>(value);
    }

    void const* value_;
    void (*print_)(std::ostream&, void const*);
};

/// Joins the parts. Not a template, and neither are the errors below but for their lists: hundreds of sentences share one function.
[[gnu::cold, gnu::noinline]] inline std::string joined(std::initializer_list<SentencePart> parts) {
    std::ostringstream out;
    for (SentencePart const& part : parts) out << part;
    return out.str();
}
[[noreturn, gnu::cold, gnu::noinline]] inline void fail(Fault fault, std::initializer_list<SentencePart> parts) {
    throw Error(fault, joined(parts));
}

/// Joins its arguments into one sentence, as `operator<<` prints them.
template <class... Parts>
[[gnu::cold]] std::string sentence(Parts const&... parts) {
    return joined({parts...});
}

template <class... Parts>
[[noreturn, gnu::cold]] void input_error(Parts const&... parts) {
    fail(Fault::input, {parts...});
}

template <class... Parts>
[[noreturn, gnu::cold]] void peer_error(Parts const&... parts) {
    fail(Fault::peer, {parts...});
}

template <class... Parts>
[[noreturn, gnu::cold]] void training_error(Parts const&... parts) {
    fail(Fault::training, {parts...});
}

}  // namespace lockstep
