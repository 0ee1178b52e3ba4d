#include <doctest/doctest.h>

#include <string>

#include "lockstep/state/model_sizes.hpp"

namespace model_sizes_test {

using namespace lockstep;
using state::Architecture;
using state::ModelSizes;

std::string fault(ModelSizes const& sizes) {
    try {
        sizes.validate("x");
    } catch (Error const& error) {
        CHECK(error.fault() == Fault::input);
        return error.what();
    }
    return {};
}

constexpr ModelSizes llama{.arch = Architecture::llama, .heads = 4, .kv_heads = 2, .dim = 64, .tied = false};

/// The sizes with one change.
template <class Change>
ModelSizes with(ModelSizes sizes, Change const& change) {
    change(sizes);
    return sizes;
}

TEST_CASE("sizes that fit are accepted") {
    CHECK(fault({}).empty());
    CHECK(fault(llama).empty());
    CHECK(fault({.layers = 48, .heads = 25, .kv_heads = 25, .dim = 1600, .ffn = 6400, .vocab = 50257, .sequence = 1024}).empty());
    CHECK(llama.head_size() == 16);
}

TEST_CASE("sizes that no model can have are refused by name") {
    CHECK(fault({.layers = 0}) == "x: layers must be from 1 to 65536, found 0");
    CHECK(fault(with({}, [](auto& s) { s.heads = 0; })) == "x: heads must be from 1 to 2147483647, found 0");
    CHECK(fault(with({}, [](auto& s) { s.kv_heads = 0; })) == "x: kv-heads must be from 1 to 2147483647, found 0");
    CHECK(fault(with({}, [](auto& s) { s.dim = 0; })) == "x: dim must be from 1 to 2147483647, found 0");
    CHECK(fault(with({}, [](auto& s) { s.ffn = 0; })) == "x: ffn must be from 1 to 2147483647, found 0");
    CHECK(fault(with({}, [](auto& s) { s.vocab = ~std::size_t{0}; })) ==
          "x: vocab must be from 1 to 2147483647, found 18446744073709551615");
    CHECK(fault(with({}, [](auto& s) { s.sequence = std::size_t{1} << 31; })) ==
          "x: sequence must be from 1 to 2147483647, found 2147483648");
    CHECK(fault(with({}, [](auto& s) { s.heads = s.kv_heads = 7; })) == "x: dim must be a multiple of heads, found dim 64 and 7 heads");
    CHECK(fault(with({}, [](auto& s) { s.heads = 4; })) == "x: gpt2 has as many kv-heads as heads, found 4 heads and 1 kv-heads");
    CHECK(fault(with(llama, [](auto& s) { s.kv_heads = 3; })) == "x: heads must be a multiple of kv-heads, found 4 heads and 3 kv-heads");
    CHECK(fault(with(llama, [](auto& s) { s.dim = 20; })) == "x: llama rotates pairs, so dim / heads must be even, found 20 / 4 = 5");
    CHECK(fault(with(llama, [](auto& s) { s.tied = true; })) == "x: the head of llama must not be tied to the embedding");
    CHECK(fault(with({}, [](auto& s) { s.tied = false; })) == "x: the head of gpt2 must be tied to the embedding");
    for (double const eps : {0.0, -1.0, 1.0, __builtin_nan(""), __builtin_inf()})
        CHECK(
            fault(with({}, [&](auto& s) { s.norm_eps = eps; })).starts_with("x: the epsilon of the norms must be between 0 and 1, found "));
    for (double const theta : {0.0, -1.0, __builtin_nan(""), __builtin_inf()})
        CHECK(fault(with({}, [&](auto& s) { s.rope_theta = theta; })).starts_with("x: rope theta must be at least 1, found "));
    CHECK(fault(with({}, [](auto& s) { s.dim = s.ffn = 1 << 25; })).starts_with("x: a model must have at most 2^48 parameters, found "));
    CHECK(fault(with({}, [](auto& s) {
              s.layers = 65536, s.dim = s.ffn = 1 << 15;
          })).starts_with("x: a model must have at most 2^48 parameters, found "));
}

TEST_CASE("architectures have names") {
    CHECK(state::find_architecture("llama") == Architecture::llama);
    CHECK(state::find_architecture("gpt2") == Architecture::gpt2);
    CHECK_FALSE(state::find_architecture("gpt3"));
    CHECK(state::name(Architecture::llama) == "llama");
}

}  // namespace model_sizes_test
