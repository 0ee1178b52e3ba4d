#pragma once
// The batches of one rank, step after step, made ready by a thread of its own.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>

#include "lockstep/core/error.hpp"
#include "lockstep/data/background_loader.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/data/sampler.hpp"
#include "lockstep/data/sequences.hpp"
#include "lockstep/data/tokens.hpp"

namespace lockstep::data {

struct StreamOptions {
    std::size_t                 sequence     = 0;  // T
    std::size_t                 global_batch = 1;  // G, sequences of all ranks in a step
    std::size_t                 rank         = 0;
    std::size_t                 ranks        = 1;  // P
    Order                       order        = Order::shuffled;
    std::uint64_t               seed         = 1337;
    std::optional<std::int32_t> ignore_label{};  // a label equal to it is not valid
    std::size_t                 vocabulary = 0;  // every id is checked to be below; 0: no check
    std::uint64_t               first_step = 0;
    std::uint64_t               last_step  = std::numeric_limits<std::uint64_t>::max();  // exclusive: where a loop over the stream ends
};

/// Writes the batch of a step: sample s*G + r*(G/P) + i becomes row i, i < G/P.
struct BatchAssembly {
    Tokens        tokens;
    Sampler       sampler;
    StreamOptions options;

    void operator()(Sequences& batch, std::uint64_t step) const {
        batch.first_sample = step * options.global_batch + options.rank * batch.count;
        for (std::size_t row = 0; row < batch.count; ++row)
            batch.assign(row, tokens, sampler.window(batch.first_sample + row), options.ignore_label);
    }
};

class TokenStream {
public:
    TokenStream(Tokens const& tokens, StreamOptions const& options)
        : options_(checked(tokens, options)),
          step_(options.first_step),
          loader_({slot(options), slot(options)},
                  BatchAssembly{tokens, {windows(tokens.size(), options.sequence, tokens.name()), options.order, options.seed}, options},
                  options.first_step) {}

    TokenStream(std::filesystem::path const& path, StreamOptions const& options) : TokenStream(Tokens::open(path), options) {}

    /// The batch of step `step()`, which then moves on. It stays as it is until the following call.
    Batch const& next() {
        if (step_ >= options_.last_step) input_error("token stream: expected a step below ", options_.last_step, ", found step ", step_);
        batch_ = loader_.next().batch();
        ++step_;
        return batch_;
    }

    /// Whether the next batch is there, after at most so long.
    bool ready(std::chrono::nanoseconds within = {}) { return loader_.ready(within); }

    std::uint64_t        step() const noexcept { return step_; }  // of the next batch
    StreamOptions const& options() const noexcept { return options_; }

    /// How long the last `next` waited for its batch.
    std::chrono::nanoseconds last_wait() const noexcept { return loader_.last_wait(); }

    /// `for (Batch const& batch : stream)`, from the present step to `last_step`.
    class iterator {
    public:
        using value_type       = Batch;
        using difference_type  = std::ptrdiff_t;
        using iterator_concept = std::input_iterator_tag;

        iterator() = default;
        explicit iterator(TokenStream& stream) : stream_(&stream) { advance(); }

        Batch const& operator*() const noexcept { return stream_->batch_; }
        iterator&    operator++() {
               advance();
               return *this;
        }
        void operator++(int) { advance(); }
        bool operator==(std::default_sentinel_t) const noexcept { return stream_ == nullptr; }

    private:
        void advance() {
            if (stream_->step_ < stream_->options_.last_step)
                stream_->next();
            else
                stream_ = nullptr;
        }
        TokenStream* stream_ = nullptr;
    };
    iterator                begin() { return iterator(*this); }
    std::default_sentinel_t end() const noexcept { return {}; }

private:
    static StreamOptions const& checked(Tokens const& tokens, StreamOptions const& options) {
        if (options.ranks == 0 || options.rank >= options.ranks)
            input_error("token stream: expected a rank below the number of ranks, found rank ", options.rank, " of ", options.ranks);
        if (options.global_batch == 0 || options.global_batch % options.ranks != 0)
            input_error("global batch: expected a multiple of ", options.ranks, " ranks, found ", options.global_batch, " sequences");
        windows(tokens.size(), options.sequence, tokens.name());
        if (options.vocabulary != 0) tokens.check_vocabulary(options.vocabulary);
        return options;
    }
    static Sequences slot(StreamOptions const& options) { return {options.global_batch / options.ranks, options.sequence}; }

    StreamOptions                              options_;
    std::uint64_t                              step_;
    Batch                                      batch_;
    BackgroundLoader<Sequences, BatchAssembly> loader_;
};

}  // namespace lockstep::data
