#include "lockstep/core/error.hpp"

#include <doctest/doctest.h>

#include "lockstep/core/assertion.hpp"

namespace error_test {

using namespace lockstep;

TEST_CASE("an error is one sentence, and its fault is the exit code of who has to act") {
    CHECK(sentence("--lr: expected a number above 0, found ", -0.5, " on rank ", 3) ==
          "--lr: expected a number above 0, found -0.5 on rank 3");
    try {
        input_error("train.bin: expected ", 12, " tokens");
    } catch (Error const& error) {
        CHECK(error.fault() == Fault::input);
        CHECK(static_cast<int>(error.fault()) == 2);
        CHECK(std::string(error.what()) == "train.bin: expected 12 tokens");
    }
    CHECK_THROWS_AS(peer_error("rank 1 left"), Error);
    try {
        peer_error("rank 1 left");
    } catch (Error const& error) {
        CHECK(static_cast<int>(error.fault()) == 3);
    }
    try {
        training_error("the loss is not finite");
    } catch (Error const& error) {
        CHECK(static_cast<int>(error.fault()) == 4);
    }
}

TEST_CASE("an assertion speaks where its level is on, and a level includes those below") {
    CHECK_NOTHROW(require(true, "never said"));
    CHECK_THROWS_WITH_AS(require(1 + 1 == 3, "expected ", 3, ", found ", 2), "expected 3, found 2", Error);
    static_assert(asserts(Assertions::none) && asserts(Assertions::light));
    if constexpr (!asserts(Assertions::communication)) CHECK_NOTHROW(require<Assertions::communication>(false, "too dear"));
}

}  // namespace error_test
