#pragma once
// Results that could not be written. They cost the run nothing but themselves and its exit code.

#include <cstdio>

#include "lockstep/core/error.hpp"
#include "lockstep/core/escape.hpp"
#include "lockstep/train/together.hpp"  // Failure

namespace train_gpt {

class Lost {
public:
    /// Runs `body`, which writes a result. Where it cannot, standard error is told and the answer is false.
    template <class Body>
    bool written(Body&& body) {
        auto const failure = lockstep::Failure::of(body);
        if (failure.sentence.empty()) return true;
        std::fprintf(stderr, "%s; the run goes on without it\n", lockstep::escaped(failure.sentence).c_str());
        note();
        return false;
    }

    /// Something else is lost, of which somebody has told.
    void note() noexcept { some_ = true; }

    /// Of a program that has done everything else.
    int exit_code() const noexcept { return some_ ? static_cast<int>(lockstep::Fault::input) : 0; }

private:
    bool some_ = false;
};

}  // namespace train_gpt
