#pragma once
// Evaluation data: every full window of the tokens exactly once, over all ranks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include "lockstep/core/error.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/data/sampler.hpp"
#include "lockstep/data/sequences.hpp"
#include "lockstep/data/tokens.hpp"

namespace lockstep::data {

struct WindowOptions {
    std::size_t                 sequence = 0;  // T
    std::size_t                 batch    = 1;  // S, sequences of this rank in a batch
    std::size_t                 rank     = 0;
    std::size_t                 ranks    = 1;
    std::optional<std::int32_t> ignore_label{};
    std::size_t                 vocabulary = 0;  // every id is checked to be below; 0: no check
};

/// Rank r of P takes the windows W*r/P .. W*(r+1)/P - 1, in order. All ranks have the same number of batches of the same shape, so
/// that each takes part in every collective; rows without a window have no valid label.
class EvaluationWindows {
public:
    EvaluationWindows(Tokens const& tokens, WindowOptions const& options) : tokens_(tokens), options_(options), rows_(checked(options)) {
        windows_ = windows(tokens.size(), options.sequence, tokens.name());
        if (options.vocabulary != 0) tokens.check_vocabulary(options.vocabulary);
        begin_ = boundary(options.rank);
        end_   = boundary(options.rank + 1);
    }

    std::uint64_t size() const noexcept { return windows_; }  // windows of all ranks, W

    /// Batches of each rank.
    std::size_t batches() const noexcept {
        std::uint64_t const most = (windows_ + options_.ranks - 1) / options_.ranks;
        return static_cast<std::size_t>((most + options_.batch - 1) / options_.batch);
    }

    /// Batch `index`, valid until the next call.
    Batch const& operator[](std::size_t index) {
        std::uint64_t const first = begin_ + std::uint64_t{index} * options_.batch;
        rows_.first_sample        = std::min(first, end_);
        for (std::size_t row = 0; row < options_.batch; ++row) {
            if (first + row < end_)
                rows_.assign(row, tokens_, first + row, options_.ignore_label);
            else
                rows_.clear(row);
        }
        return batch_ = rows_.batch();
    }

    class iterator {
    public:
        using value_type       = Batch;
        using difference_type  = std::ptrdiff_t;
        using iterator_concept = std::input_iterator_tag;

        iterator() = default;
        explicit iterator(EvaluationWindows& windows) : windows_(&windows) { (*windows_)[0]; }

        Batch const& operator*() const noexcept { return windows_->batch_; }
        iterator&    operator++() {
               if (++index_ < windows_->batches()) (*windows_)[index_];
            return *this;
        }
        void operator++(int) { ++*this; }
        bool operator==(std::default_sentinel_t) const noexcept { return index_ == windows_->batches(); }

    private:
        EvaluationWindows* windows_ = nullptr;
        std::size_t        index_   = 0;
    };
    iterator                begin() { return iterator(*this); }
    std::default_sentinel_t end() const noexcept { return {}; }

private:
    static Sequences checked(WindowOptions const& options) {
        if (options.ranks == 0 || options.rank >= options.ranks)
            input_error("evaluation: expected a rank below the number of ranks, found rank ", options.rank, " of ", options.ranks);
        if (options.batch == 0) input_error("evaluation: expected at least 1 sequence in a batch, found 0");
        return {options.batch, options.sequence};
    }
    std::uint64_t boundary(std::size_t rank) const noexcept {
        return windows_ / options_.ranks * rank + std::min<std::uint64_t>(rank, windows_ % options_.ranks);
    }

    Tokens        tokens_;
    WindowOptions options_;
    Sequences     rows_;  // (S,T)
    Batch         batch_;
    std::uint64_t windows_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace lockstep::data
