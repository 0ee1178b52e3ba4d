#include "lockstep/core/error.hpp"

#include <doctest/doctest.h>

#include <system_error>

#include "lockstep/core/assertion.hpp"
#include "lockstep/core/thread.hpp"

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

struct NoThread {
    template <class Body>
    explicit NoThread(Body&&) {
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    }
};

TEST_CASE("a thread that cannot be had is an error that says what it was for") {
    CHECK_THROWS_WITH_AS(start_thread<NoThread>("to read batches ahead", [] {}),
                         "expected another thread, to read batches ahead, found: Resource temporarily unavailable", Error);
}

TEST_CASE("an assertion speaks where its level is on, and a level includes those below") {
    CHECK_NOTHROW(require(true, "never said"));
    CHECK_THROWS_WITH_AS(require(1 + 1 == 3, "expected ", 3, ", found ", 2), "expected 3, found 2", Error);
    static_assert(asserts(Assertions::none) && asserts(Assertions::light));
    if constexpr (!asserts(Assertions::communication)) CHECK_NOTHROW(require<Assertions::communication>(false, "too dear"));
}

}  // namespace error_test
