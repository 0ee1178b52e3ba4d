// What may stand where in a chain, and what a chain says of itself.

#include "lockstep/nn/sequential.hpp"

#include <doctest/doctest.h>

#include "lockstep/nn/recompute.hpp"
#include "lockstep/nn/residual.hpp"

namespace sequential_test {

using namespace lockstep::nn;

struct Plain {
    template <class T>
    struct Saved {};
    void declare(Declaration&) const {}
    template <class P, class T = typename P::element>
    View<T, 2> forward(P&, View<T, 2> x, Saved<T>&) const {
        return x;
    }
    template <class P, class T = typename P::element>
    View<T, 2> backward(P&, View<T, 2> dy, Saved<T>&) const {
        return dy;
    }
    template <class T, class F>
    void inspect(Saved<T> const&, F&&) const {}
};
struct Writes : Plain {
    static constexpr bool overwrites_input = true;
};
struct Spoils : Plain {
    static constexpr bool overwrites_gradient = true;
};
struct Keeps : Plain {
    static constexpr bool keeps_output = true;
};
struct Returns : Plain {
    static constexpr bool returns_gradient = true;
};

template <class... Modules>
constexpr bool chain = detail::writes_over_nothing_needed<Modules...>();

TEST_CASE("a chain accepts modules that write over what its own modules made") {
    CHECK(chain<Plain>);
    CHECK(chain<Plain, Writes, Writes>);
    CHECK(chain<Spoils, Plain>);
    CHECK(chain<Spoils, Spoils, Keeps>);
    CHECK(chain<Spoils, Returns, Plain>);
    CHECK(chain<Spoils, Plain, Returns>);
}

TEST_CASE("a chain refuses to write over the caller's input or gradient, also where it is one module long") {
    CHECK_FALSE(chain<Writes>);
    CHECK_FALSE(chain<Writes, Plain>);
    CHECK_FALSE(chain<Spoils>);
    CHECK_FALSE(chain<Plain, Spoils>);
}

TEST_CASE("a chain refuses to write over the caller's gradient that a module hands through") {
    CHECK_FALSE(chain<Spoils, Returns>);
    CHECK_FALSE(chain<Plain, Spoils, Returns, Returns>);
}

TEST_CASE("a chain refuses to write over what a module keeps") {
    CHECK_FALSE(chain<Keeps, Writes>);
    CHECK_FALSE(chain<Plain, Keeps, Writes>);
    CHECK_FALSE(chain<Plain, Sequential<Plain, Keeps>, Writes>);
    CHECK_FALSE(chain<Recompute<Keeps>, Writes>);
    CHECK(chain<Residual<Keeps>, Writes>);  // its sum is a tensor of its own
}

TEST_CASE("combinators say of themselves what their modules do") {
    CHECK(keeps_output<Sequential<Plain, Keeps>>);
    CHECK_FALSE(keeps_output<Sequential<Keeps, Plain>>);
    CHECK(returns_gradient<Sequential<Returns, Returns>>);
    CHECK_FALSE(returns_gradient<Sequential<Plain, Returns>>);
    CHECK(overwrites_gradient<Recompute<Spoils>>);
    CHECK(returns_gradient<Recompute<Returns>>);
}

}  // namespace sequential_test
