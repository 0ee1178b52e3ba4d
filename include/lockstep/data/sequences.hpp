#pragma once
// Windows of tokens written out as sequences and their labels.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/data/booked_vector.hpp"
#include "lockstep/data/tokens.hpp"

namespace lockstep::data {

/// Memory of one batch, S sequences of T tokens.
struct Sequences {
    Sequences(std::size_t sequences, std::size_t of_length)
        : count(sequences), length(of_length), tokens(sequences * of_length), labels(sequences * of_length) {}

    std::size_t                count, length;
    BookedVector<std::int32_t> tokens, labels;  // (S,T)
    std::uint64_t              first_sample = 0;

    Batch batch() const noexcept { return {count, length, first_sample, tokens, labels}; }

    /// Row `row` becomes a window: tokens w*T .. w*T+T-1, labelled by those that follow each. A label equal to `ignore` is not valid.
    void assign(std::size_t row, Tokens const& from, std::uint64_t window, std::optional<std::int32_t> ignore) {
        std::span const row_labels = std::span(labels).subspan(row * length, length);
        from.copy(static_cast<std::size_t>(window) * length, std::span(tokens).subspan(row * length, length));
        from.copy(static_cast<std::size_t>(window) * length + 1, row_labels);
        if (ignore) std::replace(row_labels.begin(), row_labels.end(), *ignore, std::int32_t{ignored_label});
    }

    /// Row `row` takes part in nothing.
    void clear(std::size_t row) {
        std::fill_n(tokens.data() + row * length, length, 0);
        std::fill_n(labels.data() + row * length, length, std::int32_t{ignored_label});
    }
};

}  // namespace lockstep::data
