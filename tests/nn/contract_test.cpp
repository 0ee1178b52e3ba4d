// Near misses of the contracts of modules and models: each lacks one thing.

#include <doctest/doctest.h>

#include "lockstep/nn/gpt2.hpp"
#include "lockstep/nn/llama.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/nn/module.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "lockstep/tensor/xtensor_storage.hpp"

namespace contract_test {

using namespace lockstep;
using namespace lockstep::nn;

/// Lacks nothing.
struct Plain {
    template <class T>
    struct Saved {};
    void declare(Declaration&) {}
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
using P = Pass<float, tensor::ArenaStorage>;

struct SavesNothingNamed {
    void declare(Declaration&) {}
};
struct SavedNeedsArguments : Plain {
    template <class T>
    struct Saved {
        explicit Saved(int) {}
    };
};
struct DeclaresNothing : Plain {
    void declare(Declaration&) = delete;
};
struct ForwardChangesModule : Plain {
    template <class Q, class T = typename Q::element>
    View<T, 2> forward(Q&, View<T, 2> x, Saved<T>&) {
        return x;
    }
};
struct ForwardReturnsNothing : Plain {
    template <class Q, class T = typename Q::element>
    void forward(Q&, View<T, 2>, Saved<T>&) const {}
};
struct BackwardWithoutSaved : Plain {
    template <class Q, class T = typename Q::element>
    View<T, 2> backward(Q&, View<T, 2> dy) const {
        return dy;
    }
};
struct BackwardReturnsReadOnly : Plain {
    template <class Q, class T = typename Q::element>
    View<T const, 2> backward(Q&, View<T, 2> dy, Saved<T>&) const {
        return dy;
    }
};
struct ShowsNothing : Plain {
    template <class T, class F>
    void inspect(Saved<T> const&, F&&) const = delete;
};

static_assert(module<Plain> && module<Plain, Pass<double, tensor::XtensorStorage>>);
static_assert(!declares_what_it_saves<SavesNothingNamed, float> && !module<SavesNothingNamed>);
static_assert(!declares_what_it_saves<SavedNeedsArguments, float> && !module<SavedNeedsArguments>);
static_assert(!declares_parameters<DeclaresNothing> && !module<DeclaresNothing>);
static_assert(!runs_forward<ForwardChangesModule, P> && !module<ForwardChangesModule>);
static_assert(!runs_forward<ForwardReturnsNothing, P> && !module<ForwardReturnsNothing>);
static_assert(!runs_backward<BackwardWithoutSaved, P> && !module<BackwardWithoutSaved>);
static_assert(!runs_backward<BackwardReturnsReadOnly, P> && !module<BackwardReturnsReadOnly>);
static_assert(!shows_what_it_saves<ShowsNothing, float> && !module<ShowsNothing>);
static_assert(!module<int>);

// What a module says of itself.
struct Marked : Plain {
    static constexpr bool overwrites_input = true, overwrites_gradient = false, keeps_output = true;
};
static_assert(overwrites_input<Marked> && !overwrites_gradient<Marked> && keeps_output<Marked>);
static_assert(!overwrites_input<Plain> && !overwrites_gradient<Plain> && !keeps_output<Plain>);

// Models.
using Ids = std::span<std::int32_t const>;
struct PlainModel {
    PlainModel() = default;
    PlainModel(state::ModelSizes const&, ModelOptions const&) {}
    state::ModelSizes sizes() const { return {}; }
    using storage = tensor::ArenaStorage;
    template <class T>
    struct Saved {};
    std::vector<state::Unit> units() const { return {}; }
    template <class T>
    Saved<T> make_saved() const {
        return {};
    }
    template <class T>
    View<T, 2> embed(Pass<T, storage>&, Ids, Saved<T>&) const {
        return {};
    }
    template <class T>
    View<T, 2> block(std::size_t, Pass<T, storage>&, View<T, 2> x, Saved<T>&) const {
        return x;
    }
    template <class T>
    ExactSum loss(Pass<T, storage>&, View<T, 2>, Ids, Saved<T>&) const {
        return {};
    }
    template <class T>
    View<T, 2> loss_backward(Pass<T, storage>&, View<T, 2>, Ids, precision::accumulator<T>, Saved<T>&, ExactSum&) const {
        return {};
    }
    template <class T>
    View<T, 2> block_backward(std::size_t, Pass<T, storage>&, View<T, 2> dy, Saved<T>&) const {
        return dy;
    }
    template <class T>
    void embed_backward(Pass<T, storage>&, View<T, 2>, Saved<T>&) const {}
};
struct StorageIsNone : PlainModel {
    using storage = int;
};
struct NoUnits : PlainModel {
    void units() const {}
};
struct SavedIsNotMade : PlainModel {
    template <class T>
    void make_saved(int) const {}
};
struct LossIsRounded : PlainModel {
    template <class T>
    double loss(Pass<T, storage>&, View<T, 2>, Ids, Saved<T>&) const {
        return 0;
    }
};
struct NoBlockForward : PlainModel {
    template <class T>
    View<T, 2> block(Pass<T, storage>&, View<T, 2> x, Saved<T>&) const {
        return x;
    }
};
struct NoLossBackward : PlainModel {
    template <class T>
    View<T, 2> loss_backward(Pass<T, storage>&, View<T, 2>, Ids, Saved<T>&, ExactSum&) const {
        return {};
    }
};
struct EmbeddingStaysAsItIs : PlainModel {
    template <class T>
    void embed_backward(Pass<T, storage>&, View<T, 2>, Saved<T>&) const = delete;
};

static_assert(model<PlainModel, float> && model<PlainModel, precision::bfloat16>);
static_assert(model<Gpt2<tensor::ArenaStorage>, double> && model<Llama<tensor::XtensorStorage>, precision::float16>);
static_assert(has_sizes<PlainModel> && !has_sizes<NoUnits>);  // a derived model without the constructor
static_assert(!lists_units<StorageIsNone>);
static_assert(!lists_units<NoUnits> && !model<NoUnits, float>);
static_assert(!runs_units_forward<SavedIsNotMade, float> && !model<SavedIsNotMade, float>);
static_assert(!runs_units_forward<LossIsRounded, float> && !model<LossIsRounded, float>);
static_assert(!runs_units_forward<NoBlockForward, float> && !model<NoBlockForward, float>);
static_assert(!runs_units_backward<NoLossBackward, float> && !model<NoLossBackward, float>);
static_assert(!runs_units_backward<EmbeddingStaysAsItIs, float> && !model<EmbeddingStaysAsItIs, float>);

TEST_CASE("a key of random numbers is its own for each unit, place and version") {
    P          pass;
    auto const words = [&](std::uint32_t site) { return random_block(pass.random(site), 0); };
    auto const first = words(1);
    CHECK(words(1) == first);
    CHECK(words(2) != first);
    pass.place        = 1;
    auto const second = words(1);
    CHECK(second != first);
    pass.version = 1;
    CHECK(words(1) != second);
}

}  // namespace contract_test
