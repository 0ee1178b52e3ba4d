#include "lockstep/tensor/storage.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

#include "lockstep/tensor/arena_storage.hpp"
#include "lockstep/tensor/xtensor_storage.hpp"

namespace storage_test {

using namespace lockstep::tensor;
using lockstep::observe::Category;

// Near misses: each lacks one thing of the contract.

struct NoBuffer {
    using Workspace = ArenaStorage::Workspace;
};
struct NoWorkspace {
    template <class T>
    using Buffer = ArenaStorage::Buffer<T>;
};
struct BufferWithoutCategory : ArenaStorage {
    template <class T>
    struct Buffer {
        explicit Buffer(std::size_t) {}
        std::span<T> span();
    };
};
struct BufferOfConstants : ArenaStorage {
    template <class T>
    struct Buffer {
        Buffer(std::size_t, Category) {}
        std::span<T const> span();
    };
};
struct BufferThatStays : ArenaStorage {
    template <class T>
    struct Buffer {
        Buffer(std::size_t, Category) {}
        Buffer(Buffer const&) = delete;
        std::span<T> span();
    };
};
struct WorkspaceWithoutRewind : ArenaStorage {
    struct Workspace : private ArenaStorage::Workspace {
        using ArenaStorage::Workspace::keep;
        using ArenaStorage::Workspace::mark;
        using ArenaStorage::Workspace::take;
    };
};
struct WorkspaceWithoutKeep : ArenaStorage {
    struct Workspace : private ArenaStorage::Workspace {
        using ArenaStorage::Workspace::mark;
        using ArenaStorage::Workspace::rewind;
        using ArenaStorage::Workspace::take;
    };
};
struct WorkspaceOfPointers : ArenaStorage {
    struct Workspace : ArenaStorage::Workspace {
        template <class T, std::size_t Rank>
        T* take(std::array<std::size_t, Rank>);
    };
};

static_assert(storage<ArenaStorage> && storage<XtensorStorage>);
static_assert(!provides_buffers<NoBuffer> && provides_workspace<NoBuffer> && !storage<NoBuffer>);
static_assert(provides_buffers<NoWorkspace> && !provides_workspace<NoWorkspace> && !storage<NoWorkspace>);
static_assert(!provides_buffers<BufferWithoutCategory> && !storage<BufferWithoutCategory>);
static_assert(!provides_buffers<BufferOfConstants> && !storage<BufferOfConstants>);
static_assert(!provides_buffers<BufferThatStays> && !storage<BufferThatStays>);
static_assert(!provides_workspace<WorkspaceWithoutRewind> && !storage<WorkspaceWithoutRewind>);
static_assert(!provides_workspace<WorkspaceWithoutKeep> && !storage<WorkspaceWithoutKeep>);
static_assert(!provides_workspace<WorkspaceOfPointers> && !storage<WorkspaceOfPointers>);

std::size_t held(Category category) { return lockstep::observe::ledger()[category].now.load(); }
std::size_t held() { return lockstep::observe::ledger().total().now.load(); }

template <class T, std::size_t Rank>
void fill(View<T, Rank> view, T value) {
    std::fill_n(view.data(), view.size(), value);
}

TEST_CASE_TEMPLATE("a buffer is zero, aligned, booked to the byte under its category, and given back", S, ArenaStorage, XtensorStorage) {
    std::size_t const before = held();
    for (std::size_t const count : {std::size_t{1}, std::size_t{1001}, std::size_t{1} << 20}) {  // the last one has pages of its own
        std::size_t const                  parameters = held(Category::parameters);
        typename S::template Buffer<float> buffer(count, Category::parameters);
        CHECK(held(Category::parameters) == parameters + 4 * count);
        CHECK(buffer.span().size() == count);
        CHECK(reinterpret_cast<std::uintptr_t>(buffer.span().data()) % lockstep::alignment == 0);
        CHECK(std::all_of(buffer.span().begin(), buffer.span().end(), [](float v) { return v == 0; }));

        buffer.span()[0]                         = 7;
        float const* const                 place = buffer.span().data();
        typename S::template Buffer<float> moved(std::move(buffer));
        CHECK(moved.span().data() == place);  // elements stay where they are
        moved = {count / 2 + 1, Category::gradients};
        CHECK(held(Category::parameters) == parameters);
        CHECK(held() == before + 4 * (count / 2 + 1));
        CHECK(moved.span()[0] == 0);
    }
    CHECK(held() == before);
    typename S::template Buffer<float> none(0, Category::data);
    CHECK(none.span().empty());
    CHECK(held() == before);
}

TEST_CASE_TEMPLATE("a workspace is a stack: what was taken since a mark goes, or all but one tensor of it", S, ArenaStorage,
                   XtensorStorage) {
    std::size_t const before = held();
    {
        typename S::Workspace workspace;
        auto const            first = workspace.template take<float, 2>({3, 5});
        fill(first, 1.0f);
        auto const mark    = workspace.mark();
        auto const dropped = workspace.template take<double, 1>({100});
        fill(dropped, 9.0);
        auto const wanted = workspace.template take<float, 2>({4, 6});
        for (std::size_t i = 0; i < wanted.size(); ++i) wanted.data()[i] = static_cast<float>(i);
        fill(workspace.template take<float, 2>({7, 7}), 8.0f);

        auto const kept = workspace.keep(mark, wanted);
        auto const next = workspace.template take<float, 2>({200, 200});
        fill(next, -1.0f);
        CHECK(kept.extents() == std::array<std::size_t, 2>{4, 6});
        for (std::size_t i = 0; i < kept.size(); ++i) CHECK(kept.data()[i] == static_cast<float>(i));
        CHECK(std::all_of(first.data(), first.data() + first.size(), [](float v) { return v == 1; }));

        workspace.rewind(mark);
        auto const again = workspace.template take<std::int32_t, 3>({2, 3, 4});
        CHECK(reinterpret_cast<std::uintptr_t>(again.data()) % lockstep::alignment == 0);
        CHECK(held(Category::activations) > 0);
    }
    CHECK(held() == before);
    CHECK(held(Category::activations) == 0);
}

TEST_CASE("an arena keeps a tensor whose rows lie apart") {
    ArenaStorage::Workspace workspace;
    auto const              mark  = workspace.mark();
    auto const              first = workspace.take<float, 1>({100});
    auto const              view  = workspace.take<float, 2>({5, 9}).columns(0, 7);
    for (std::size_t r = 0; r < 5; ++r)
        for (std::size_t c = 0; c < 7; ++c) view(r, c) = static_cast<float>(10 * r + c);
    auto const kept = workspace.keep(mark, view);
    CHECK(kept.data() == first.data());
    CHECK(kept.extents() == view.extents());
    bool right = true;
    for (std::size_t r = 0; r < 5; ++r)
        for (std::size_t c = 0; c < 7; ++c) right = right && kept(r, c) == static_cast<float>(10 * r + c);
    CHECK(right);
    auto const nothing = workspace.take<float, 2>({0, 9}).columns(0, 7);
    CHECK(workspace.keep(mark, nothing).size() == 0);
}

TEST_CASE("an arena grows until the largest step has been, then keeps what it has") {
    ArenaStorage::Workspace workspace;
    auto const              step = [&](std::size_t rows) {
        workspace.rewind({});
        for (std::size_t i = 0; i < 20; ++i) fill(workspace.take<float, 2>({rows, 1000}), 1.0f);
    };
    step(300);
    std::size_t const grown = held(Category::activations);
    CHECK(grown >= 20 * 300 * 4000);
    for (std::size_t rows : {10u, 300u, 299u}) step(rows);
    CHECK(held(Category::activations) == grown);
}

TEST_CASE("storage in xtensor containers holds exactly what is in use") {
    XtensorStorage::Workspace workspace;
    auto const                mark = workspace.mark();
    workspace.take<float, 2>({3, 5});
    auto const second = workspace.take<float, 1>({7});
    CHECK(held(Category::activations) == 4 * (15 + 7));
    workspace.keep(mark, second);
    CHECK(held(Category::activations) == 4 * 7);
    View<float, 1> const elsewhere{};
    CHECK_THROWS_AS(workspace.keep(mark, elsewhere), lockstep::Error);
    workspace.rewind(mark);
    CHECK(held(Category::activations) == 0);
}

#if defined(LOCKSTEP_ADDRESS_SANITIZER)
TEST_CASE("AddressSanitizer knows a view that outlives its tensor") {
    auto const dead = [](View<float, 1> view) { return __asan_address_is_poisoned(view.data()) != 0; };

    ArenaStorage::Workspace workspace;
    auto const              first = workspace.take<float, 1>({100});
    auto const              mark  = workspace.mark();
    auto const              large = workspace.take<float, 1>({5'000'000});  // in a block of its own
    auto const              last  = workspace.take<float, 1>({100});
    CHECK_FALSE(dead(large));
    auto const kept = workspace.keep(mark, last);
    CHECK_FALSE(dead(first));
    CHECK_FALSE(dead(kept));
    CHECK(dead(last));
    workspace.rewind({});
    CHECK(dead(first));
    CHECK(dead(kept));
    auto const again = workspace.take<float, 1>({100});
    CHECK_FALSE(dead(again));
}
#endif

}  // namespace storage_test
