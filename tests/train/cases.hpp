#pragma once
// Batches that a test writes down, shared out to ranks, and small models for them.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "lockstep/comm/environment.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/state/model_sizes.hpp"

inline constexpr std::int32_t ignored = lockstep::ignored_label;

inline lockstep::comm::Communicator const& world() {
    static lockstep::comm::Environment environment;
    return environment.world();
}
inline std::size_t rank() { return static_cast<std::size_t>(world().rank()); }
inline std::size_t ranks() { return static_cast<std::size_t>(world().size()); }

/// A global batch (S,T). Rank r of P takes rows r*S/P .. (r+1)*S/P-1.
struct Rows {
    std::size_t               length = 1;  // T
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> labels;
    std::uint64_t             first_sample = 0;

    std::size_t count() const { return tokens.size() / length; }

    lockstep::data::Batch all() const {
        return {.sequences = count(), .length = length, .first_sample = first_sample, .tokens = tokens, .labels = labels};
    }
    lockstep::data::Batch part(std::size_t r, std::size_t of) const {
        std::size_t const sequences = count() / of, begin = r * sequences;
        return {.sequences    = sequences,
                .length       = length,
                .first_sample = first_sample + begin,
                .tokens       = std::span(tokens).subspan(begin * length, sequences * length),
                .labels       = std::span(labels).subspan(begin * length, sequences * length)};
    }
    lockstep::data::Batch mine() const { return part(rank(), ranks()); }
};

/// Random tokens; about one label in five is ignored.
inline Rows random_rows(std::size_t sequences, std::size_t length, std::size_t vocab, std::uint64_t seed) {
    Rows rows{.length = length, .tokens = {}, .labels = {}, .first_sample = 100 * seed};
    for (std::size_t i = 0; i < sequences * length; ++i) {
        std::uint32_t const bits = lockstep::random_bits({seed, 7, 0}, i);
        rows.tokens.push_back(static_cast<std::int32_t>(bits % vocab));
        rows.labels.push_back((bits >> 16) % 5 == 0 ? ignored : static_cast<std::int32_t>((bits >> 8) % vocab));
    }
    return rows;
}

/// Of the scripted model: `root` elements in the root, `block` in each block.
inline lockstep::state::ModelSizes scripted_sizes(std::size_t root, std::size_t layers, std::size_t block) {
    return {.layers = layers, .dim = block, .vocab = root, .sequence = 64};
}
