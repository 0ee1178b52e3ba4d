// Which unit is collected when: a script of what a step acquires, against what is started.

#include "lockstep/parallel/gathered_units.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace gathered_units_test {

using namespace lockstep;
using namespace lockstep::parallel;

/// What happened, in order: "g2" unit 2 is being collected, "w2" it was waited for, "a2" it was given out. "g2'" is its second copy.
std::string& history() {
    static std::string text;
    return text;
}

struct Gather {
    std::string name;
    void        start(std::span<float>) { history() += "g" + name + " "; }
    void        wait() { history() += "w" + name + " "; }
};

std::vector<state::Unit> units_of(std::size_t layers) {
    std::vector<state::Unit> units{{.name = "root", .parameters = {}, .size = 3, .root = true}};
    for (std::size_t l = 0; l < layers; ++l) units.push_back({.name = "h", .parameters = {}, .size = 5});
    return units;
}

class Units {
public:
    Units(std::size_t layers, std::size_t slots, std::size_t prefetch, bool paired = false, bool recompute = false)
        : units_(units_of(layers)), layers_(layers), prefetch_(prefetch), gathered_(gathers(paired, recompute), units_, slots) {}

    void use(std::size_t unit, Phase phase) {
        auto const weights = gathered_.acquire(unit, phase, prefetch_, [](std::size_t u, std::size_t copy, std::span<float> buffer) {
            buffer[0] = static_cast<float>(2 * u + copy);
        });
        CHECK(!(weights.forward.empty() && weights.input_grad.empty()));
        if (!weights.forward.empty()) CHECK(weights.forward[0] == static_cast<float>(2 * unit));  // nobody else's
        if (!weights.input_grad.empty()) CHECK(weights.input_grad[0] == static_cast<float>(2 * unit + 1));
        history() += "a" + std::to_string(unit) + " ";
        gathered_.release(unit, phase);
    }
    std::string step() {
        history().clear();
        use(0, Phase::forward);
        for (std::size_t l = 1; l <= layers_; ++l) use(l, Phase::forward);
        use(0, Phase::backward);
        for (std::size_t l = layers_; l > 0; --l) use(l, Phase::backward);
        use(0, Phase::backward);
        gathered_.wait();
        gathered_.invalidate();
        return history();
    }
    GatheredUnits<Gather, float, tensor::ArenaStorage>& gathered() { return gathered_; }

private:
    std::vector<Gather> gathers(bool paired, bool recompute) {
        std::vector<Gather> result;
        for (std::size_t u = 0; u < units_.size(); ++u) {
            units_[u].paired            = paired;
            units_[u].backward_computes = u == 0 || recompute;
            result.push_back({std::to_string(u)});
        }
        for (std::size_t u = 0; paired && u < units_.size(); ++u) result.push_back({std::to_string(u) + "'"});
        return result;
    }

    std::vector<state::Unit>                           units_;
    std::size_t                                        layers_, prefetch_;
    GatheredUnits<Gather, float, tensor::ArenaStorage> gathered_;
};

std::size_t count(std::string const& text, std::string const& what) {
    std::size_t found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
}

TEST_CASE("without prefetch a unit is collected when it is needed, again for backward, but the last and the root only once") {
    Units             units(3, 1, 0);
    std::string const expected = "g0 w0 a0 g1 w1 a1 g2 w2 a2 g3 w3 a3 a0 a3 g2 w2 a2 g1 w1 a1 a0 ";
    CHECK(units.step() == expected);
    CHECK(units.step() == expected);  // new weights, the same order
}

TEST_CASE("with prefetch the next unit is on its way before it is needed, in backward too") {
    Units      units(3, 2, 1);
    auto const found = units.step();
    CHECK(found.starts_with("g0 g1 w0 a0 g2 w1 a1 g3 w2 a2 w3 a3"));
    for (auto const* order : {"g2 ", "g1 "}) CHECK(count(found, order) <= 2);
    CHECK(count(found, "g0 ") == 1);
    CHECK(units.step() == found);
}

TEST_CASE("with a place for each unit everything is collected once a step") {
    for (std::size_t prefetch : {0u, 1u, 2u, 9u}) {
        Units units(4, 5, prefetch);
        for (int s = 0; s < 2; ++s) {
            auto const found = units.step();
            for (auto const* unit : {"g0 ", "g1 ", "g2 ", "g3 ", "g4 "}) CHECK(count(found, unit) == 1);
        }
    }
}

TEST_CASE("at every depth and number of places each unit is given out whole, and none is collected more than twice") {
    for (std::size_t layers : {1u, 2u, 5u})
        for (std::size_t prefetch : {0u, 1u, 2u, 3u, 7u})
            for (std::size_t slots = 1; slots <= prefetch + 2; ++slots) {
                Units units(layers, slots, prefetch);
                for (int s = 0; s < 2; ++s) {
                    auto const found = units.step();
                    CHECK(count(found, "a") == 2 * layers + 3);
                    if (slots > prefetch)
                        for (std::size_t u = 1; u <= layers; ++u) CHECK(count(found, "g" + std::to_string(u) + " ") <= 2);
                }
            }
}

TEST_CASE("a unit that is in use is not written over: where no place is free the error says so") {
    Units      units(3, 1, 0);
    auto const fill = [](std::size_t, std::size_t, std::span<float>) {};
    units.gathered().acquire(1, Phase::forward, 0, fill);
    CHECK_THROWS_WITH_AS(units.gathered().acquire(2, Phase::forward, 0, fill), doctest::Contains("no buffer is free for unit 2"), Error);
    units.gathered().release(1, Phase::forward);
    CHECK_NOTHROW(units.gathered().acquire(2, Phase::forward, 0, fill));
    units.gathered().wait();
}

TEST_CASE("of two copies each phase collects the one that it reads, and the root both in backward") {
    Units      units(3, 1, 0, true);
    auto const expected = "g0 w0 a0 g1 w1 a1 g2 w2 a2 g3 w3 a3 g0' w0' a0 g3' w3' a3 g2' w2' a2 g1' w1' a1 a0 ";
    CHECK(units.step() == expected);
    CHECK(units.step() == expected);
    Units      ahead(3, 2, 1, true);
    auto const found = ahead.step();
    CHECK(found.starts_with(
        "g0 g1 w0 a0 g2 w1 a1 g3 w2 a2 g0' g3' w3 a3"));  // the turn to backward is prefetched too, the root's second copy first
    for (auto const* copy : {"g0 ", "g1 ", "g2 ", "g3 ", "g0' ", "g1' ", "g2' ", "g3' "}) CHECK(count(found, copy) == 1);
    Units      kept(3, 4, 1, true);
    auto const all = kept.step();
    for (auto const* copy : {"g0 ", "g1 ", "g2 ", "g3 ", "g0' ", "g1' ", "g2' ", "g3' "}) CHECK(count(all, copy) == 1);
}

TEST_CASE("backward of units that compute again collects both copies") {
    for (std::size_t slots : {1u, 2u, 3u})
        for (std::size_t prefetch = 0; prefetch < slots; ++prefetch) {
            Units      units(3, slots, prefetch, true, true);
            auto const found = units.step();
            for (auto const* copy : {"g1' ", "g2' ", "g3' "}) CHECK(count(found, copy) == 1);
            CHECK(count(found, "a") == 2 * 3 + 3);
            CHECK(units.step() == found);
        }
}

}  // namespace gathered_units_test
