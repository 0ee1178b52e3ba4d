#pragma once
// What all ranks know of a step together: counts, loss and squares of gradients, summed as integers, so that no order changes them.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "lockstep/core/exact_sum.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/train/agreement.hpp"

namespace lockstep {

class StepTotals {
public:
    ExactSum loss;     // of this rank until `sum`
    ExactSum squares;  // of the gradients that this rank counts

    void restart(data::Batch const& batch) {
        loss    = {};
        squares = {};
        counts_ = {static_cast<std::int64_t>(data::valid_tokens(batch.labels)), static_cast<std::int64_t>(batch.tokens.size())};
    }

    /// Starts to sum the counts; they are those of all ranks when what this returns has been waited for.
    template <class Strategy>
    auto start_counting(Strategy& strategy) {
        return strategy.start_sum(counts_);
    }

    std::uint64_t valid_tokens() const noexcept { return static_cast<std::uint64_t>(counts_[0]); }
    std::uint64_t tokens() const noexcept { return static_cast<std::uint64_t>(counts_[1]); }

    /// Makes loss and squares those of all ranks, and raises a peer error where their learning rates differ. Collective.
    template <class Strategy>
    void sum(Strategy& strategy, double learning_rate) {
        own_loss_finite_        = std::isfinite(loss.value());
        auto const         rate = std::bit_cast<std::uint64_t>(learning_rate);
        std::int64_t const mark = static_cast<std::int64_t>(digest(0, rate) >> 40);
        std::copy_n(loss.limbs().begin(), ExactSum::words, words_.begin());
        std::copy_n(squares.limbs().begin(), ExactSum::words, words_.begin() + ExactSum::words);
        words_[marks]     = mark;
        words_[marks + 1] = mark * mark;
        strategy.start_sum(words_).wait();
        auto const total = static_cast<std::uint64_t>(words_[marks]), squared = static_cast<std::uint64_t>(words_[marks + 1]);
        if (squared * strategy.ranks() != total * total)  // they have a variance; modulo 2^64, so all ranks find the same
            agree(strategy, rate, "learning rate");
        std::span<std::int64_t const, 2 * ExactSum::words + 2> const words(words_);
        loss    = ExactSum(words.template first<ExactSum::words>());
        squares = ExactSum(words.template subspan<ExactSum::words, ExactSum::words>());
    }

    /// The loss of this rank before the sum.
    bool own_loss_finite() const noexcept { return own_loss_finite_; }

    /// Mean over the valid tokens; 0 where there are none.
    double mean_loss() const noexcept { return valid_tokens() == 0 ? 0.0 : loss.value() / static_cast<double>(valid_tokens()); }

    /// Norm of the gradients as they are in the buffers, loss scale included.
    double raw_norm() const noexcept { return std::sqrt(squares.value()); }

private:
    std::array<std::int64_t, 2>                       counts_{};  // valid tokens, tokens
    std::array<std::int64_t, 2 * ExactSum::words + 2> words_{};
    bool                                              own_loss_finite_ = true;

    static constexpr std::size_t marks = 2 * ExactSum::words;  // where those of the learning rate lie
};

}  // namespace lockstep
