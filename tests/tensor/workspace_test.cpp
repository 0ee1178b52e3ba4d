// Workspaces through long histories of taking, keeping and giving back.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "lockstep/tensor/xtensor_storage.hpp"

namespace workspace_test {

using namespace lockstep::tensor;

struct Live {
    View<float, 1> view;
    float          value = 0;

    /// Its first, its last and some elements between.
    bool intact() const {
        for (std::size_t i = 0; i < view.size(); i += 1 + view.size() / 64)
            if (view(i) != value) return false;
        return view(view.size() - 1) == value;
    }
};

/// Distinct values, so that a tensor moved by the wrong distance is noticed.
void count_up(View<float, 1> view) {
    for (std::size_t i = 0; i < view.size(); ++i) view(i) = static_cast<float>(i % 65536);
}
bool counts_up(View<float, 1> view) {
    for (std::size_t i = 0; i < view.size(); ++i)
        if (view(i) != static_cast<float>(i % 65536)) return false;
    return true;
}

TEST_CASE_TEMPLATE("live tensors stay as they are, whatever else is taken, kept and given back", S, ArenaStorage, XtensorStorage) {
    using Workspace = typename S::Workspace;
    struct Marked {
        typename Workspace::Mark mark;
        std::size_t              live;
    };
    constexpr std::size_t sizes[]{1, 3, 16, 17, 1000, 4097, 70'000, 300'000, 600'000};
    std::size_t const     before = lockstep::observe::ledger().total().now.load();
    {
        Workspace           workspace;
        std::vector<Live>   live;
        std::vector<Marked> marks{{workspace.mark(), 0}};
        std::size_t         kept = 0;
        for (std::uint64_t step = 0; step < 3000; ++step) {
            auto const [what, which, size, unused] = lockstep::random_block({.seed = 1}, step);
            if (what % 8 < 4 && live.size() < 30) {
                View<float, 1> const view = workspace.template take<float, 1>({sizes[size % std::size(sizes)]});
                CHECK(reinterpret_cast<std::uintptr_t>(view.data()) % lockstep::alignment == 0);
                live.push_back({view, static_cast<float>(step)});
                std::fill_n(view.data(), view.size(), live.back().value);
            } else if (what % 8 < 6) {
                marks.push_back({workspace.mark(), live.size()});
            } else {
                std::size_t const m      = which % marks.size();
                auto const [mark, begin] = marks[m];
                marks.resize(m + 1);
                if (what % 8 == 6 && live.size() > begin) {
                    Live saved = live[begin + size % (live.size() - begin)];
                    saved.view = workspace.keep(mark, saved.view);
                    live.resize(begin);
                    live.push_back(saved);
                    ++kept;
                } else {
                    workspace.rewind(mark);
                    live.resize(begin);
                }
            }
            CHECK(std::all_of(live.begin(), live.end(), [](Live const& tensor) { return tensor.intact(); }));
        }
        CHECK(kept > 100);
    }
    CHECK(lockstep::observe::ledger().total().now.load() == before);
}

TEST_CASE_TEMPLATE("a tensor may be kept in a place that overlaps the one where it is", S, ArenaStorage, XtensorStorage) {
    for (std::size_t const dropped : {1u, 16u, 1000u})
        for (std::size_t const size : {1u, 17u, 5000u, 524'288u, 1'000'000u}) {  // the last ones have blocks of their own
            typename S::Workspace workspace;
            workspace.template take<float, 1>({7});
            auto const mark = workspace.mark();
            workspace.template take<float, 1>({dropped});
            View<float, 1> const view = workspace.template take<float, 1>({size});
            count_up(view);
            auto const           kept = workspace.keep(mark, view);
            View<float, 1> const next = workspace.template take<float, 1>({100});
            std::fill_n(next.data(), next.size(), -1.0f);
            CAPTURE(size);
            CHECK(counts_up(kept));
        }
}

TEST_CASE_TEMPLATE("a tensor kept right behind the mark stays where it is, one without elements is no trouble", S, ArenaStorage,
                   XtensorStorage) {
    typename S::Workspace workspace;
    auto const            mark  = workspace.mark();
    View<float, 2> const  none  = workspace.template take<float, 2>({0, 5});
    View<float, 1> const  first = workspace.template take<float, 1>({9});
    CHECK(none.size() == 0);
    count_up(first);
    View<float, 1> const kept = workspace.keep(mark, first);
    CHECK(kept.data() == first.data());
    CHECK(counts_up(kept));
}

TEST_CASE_TEMPLATE("a workspace that moves takes its tensors along", S, ArenaStorage, XtensorStorage) {
    typename S::Workspace workspace;
    View<float, 1> const  view = workspace.template take<float, 1>({1000});
    count_up(view);
    typename S::Workspace moved(std::move(workspace));
    View<float, 1> const  other = moved.template take<float, 1>({1000});
    std::fill_n(other.data(), other.size(), 0.0f);
    CHECK(counts_up(view));
}

TEST_CASE("an arena holds the blocks that are predicted for what is taken of it") {
    auto const held = [] { return lockstep::observe::ledger()[lockstep::observe::Category::activations].now.load(); };
    for (std::size_t const kib : {1u, 2048u, 2049u, 6144u, 40'000u, 300'000u}) {
        std::size_t const       before = held();
        ArenaStorage::Workspace workspace;
        for (std::size_t i = 0; i < kib; ++i) static_cast<void>(workspace.take<float, 1>({256}));  // 1 KiB
        CHECK(held() - before == ArenaStorage::Workspace::held_for(kib * 1024));
    }
    CHECK(ArenaStorage::Workspace::held_for(0) == 0);
}

TEST_CASE("memory that cannot be had is named with its use and size") {
    using lockstep::observe::Category;
    for (auto const& [category, name] : {std::pair{Category::activations, "activations"}, {Category::masters, "master"}}) {
        std::string found;
        try {
            BookedBlock const block(std::size_t{1} << 60, category);
        } catch (std::bad_alloc const& error) {
            found = error.what();
        }
        CHECK_MESSAGE(found.starts_with("memory ran out: expected 1152921504606846976 bytes more for " + std::string(name) + ", beside "),
                      found);
    }
}

}  // namespace workspace_test
