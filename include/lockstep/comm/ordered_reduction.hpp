#pragma once
// Sums of a buffer over the ranks whose bits do not depend on how the buffer was cut.

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/comm/all_gather.hpp"
#include "lockstep/comm/fwd.hpp"
#include "lockstep/comm/ordered_sum.hpp"
#include "lockstep/comm/part.hpp"
#include "lockstep/comm/request.hpp"
#include "lockstep/core/assertion.hpp"
#include "lockstep/precision/bfloat16.hpp"

namespace lockstep::comm {

/// Each rank receives the other ranks' pieces of its part, adds them in T by `ordered_sum`, then all gather the sums if all need
/// them. Can be started again and again without allocating memory. All ranks construct it with the same parts, wire and channel and
/// start operations of one channel in the same order; different channels may be in flight together. The destructor waits.
template <class T = float>
class OrderedReduction {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                  "lockstep: OrderedReduction must sum float or double; see lockstep/comm/ordered_reduction.hpp");

public:
    OrderedReduction(Endpoint const& end, std::span<Range const> parts, Wire wire, int channel)
        : parts_(part_table(parts, end.size(), "ordered reduction")), wire_(wire), channel_(channel) {
        require(channel >= 0 && channel < Endpoint::channels, "ordered reduction: channel ", channel, " is not below ", Endpoint::channels);
        require(end.size() <= most_leaves, "ordered reduction: ", end.size(), " ranks are more than ", most_leaves);
        mine_ = static_cast<std::size_t>(end.rank());
        for (Range const& part : parts_) {
            wire_begin_.push_back(elements_);
            elements_ += part.size();
            buffer_size_ = std::max(buffer_size_, part.end);
        }
        exchange_ = Exchange(end, "ordered reduction");
    }

    OrderedReduction(OrderedReduction&& other) noexcept { take(other); }
    OrderedReduction& operator=(OrderedReduction&& other) noexcept {
        if (this != &other) {
            wait_or_abandon(*this);
            take(other);
        }
        return *this;
    }
    ~OrderedReduction() { wait_or_abandon(*this); }

    /// Bytes that `start` needs as scratch, aligned to a cache line.
    std::size_t scratch_bytes() const noexcept { return outgoing_bytes() + (parts_.size() - 1) * incoming_stride(); }

    /// Starts the sum of `buffer`, as `prepare` describes it.
    void start(std::span<T> buffer, std::span<T> mine, bool add, Result result, std::span<std::byte> scratch) {
        prepare(buffer, mine, add, result, scratch);
        advance();
    }
    /// The sum of `buffer`; nothing moves before the first step. Scattered: `mine` gets (or has added) the sums of my part, and may be that
    /// part of the buffer. Gathered: the sums replace the parts of `buffer` on every rank; `mine` is not used. All spans stay in use until
    /// it is done.
    void prepare(std::span<T> buffer, std::span<T> mine, bool add, Result result, std::span<std::byte> scratch) {
        require(phase_ == Phase::idle, "ordered reduction: started before the one before it on channel ", channel_, " is done");
        require(buffer.size() >= buffer_size_, "ordered reduction: the buffer has ", buffer.size(), " elements, its parts need ",
                buffer_size_);
        require(scratch.size() >= scratch_bytes(), "ordered reduction: the scratch has ", scratch.size(), " bytes of ", scratch_bytes());
        require(result == Result::gathered || mine.size() == this->mine().size(), "ordered reduction: `mine` has ", mine.size(),
                " elements, the part of rank ", mine_, " has ", this->mine().size());
        require(result == Result::scattered || !add, "ordered reduction: gathered sums replace the buffer and cannot be added to it");
        buffer_  = buffer;
        out_     = result == Result::gathered ? part_of(mine_) : mine;
        scratch_ = scratch.data();
        add_     = add;
        result_  = result;
        summed_  = 0;
        rounded_ = {};
        if (wire_ == Wire::bf16)
            scatter<precision::bfloat16>(0);
        else
            scatter<T>(elements_);
        phase_ = Phase::scattering;
    }

    /// Does what can be done without waiting, but no more arithmetic than takes a fraction of a millisecond; true when it is done.
    bool advance(Window& window) {
        if (phase_ == Phase::idle) return true;
        if (phase_ == Phase::scattering) {
            bool const scattered = exchange_.advance(window);
            bool const ready     = wire_ != Wire::bf16 || round_some(window);
            if (ready) wire_ == Wire::bf16 ? sum_some<precision::bfloat16>(window) : sum_some<T>(window);
            if (!scattered || !ready || summed_ != mine().size()) return false;
            phase_ = Phase::idle;
            if (result_ == Result::scattered) return true;
            exchange_parts(exchange_, std::as_writable_bytes(buffer_), sizeof(T), parts_, Endpoint::tag(channel_, Endpoint::Use::gather));
            phase_ = Phase::gathering;
        }
        if (!exchange_.advance(window)) return false;
        phase_ = Phase::idle;
        return true;
    }
    bool advance() {
        Window window;
        return advance(window);
    }

    void wait() { wait_until_over(*this, exchange_.end(), "ordered reduction"); }

    void abandon() noexcept {
        exchange_.abandon();
        phase_ = Phase::idle;
    }

private:
    enum class Phase { idle, scattering, gathering };

    Range const& mine() const noexcept { return parts_[mine_]; }
    std::span<T> part_of(std::size_t rank) const noexcept { return buffer_.subspan(parts_[rank].begin, parts_[rank].size()); }

    static std::size_t aligned(std::size_t bytes) noexcept { return (bytes + alignment - 1) / alignment * alignment; }

    // Scratch: the rounded buffer if the wire is narrower, then a slot for each other rank's piece of my part.
    std::size_t wire_size() const noexcept { return wire_ == Wire::bf16 ? sizeof(precision::bfloat16) : sizeof(T); }
    std::size_t outgoing_bytes() const noexcept { return wire_ == Wire::bf16 ? aligned(elements_ * wire_size()) : 0; }
    std::size_t incoming_stride() const noexcept { return aligned(mine().size() * wire_size()); }

    template <class W>
    W* outgoing(std::size_t rank) const noexcept {
        if constexpr (std::is_same_v<W, T>)
            return buffer_.data() + parts_[rank].begin;
        else
            return reinterpret_cast<W*>(scratch_) + wire_begin_[rank];
    }
    template <class W>
    W* incoming(std::size_t rank) const noexcept {
        return reinterpret_cast<W*>(scratch_ + outgoing_bytes() + (rank < mine_ ? rank : rank - 1) * incoming_stride());
    }

    /// `ready` elements of each piece may leave at once.
    template <class W>
    void scatter(std::size_t ready) {
        int const tag = Endpoint::tag(channel_, Endpoint::Use::scatter);
        for (std::size_t rank = 0; rank < parts_.size(); ++rank)
            if (rank != mine_) {
                exchange_.receive(rank, std::as_writable_bytes(std::span(incoming<W>(rank), mine().size())), tag);
                auto const piece = std::as_bytes(std::span(outgoing<W>(rank), parts_[rank].size()));
                exchange_.send(rank, piece, tag, std::min(piece.size(), ready * sizeof(W)));
            }
    }

    /// Rounds a block of the buffer to the wire, the other ranks' pieces first, and lets it leave; true when all is rounded.
    bool round_some(Window& window) {
        for (std::size_t left = block; rounded_.ranks < parts_.size();) {
            std::size_t const        rank  = (mine_ + 1 + rounded_.ranks) % parts_.size();
            std::span<T const> const from  = part_of(rank);
            std::size_t const        begin = rounded_.elements, end = std::min(from.size(), begin + left);
            auto* const              to = outgoing<precision::bfloat16>(rank);
            for (std::size_t i = begin; i < end; ++i) to[i] = precision::bfloat16(static_cast<float>(from[i]));
            if (rank != mine_) exchange_.release(rank, end * sizeof(precision::bfloat16));
            window.moved      = true;
            rounded_.elements = end;
            left -= end - begin;
            if (end != from.size()) return false;
            rounded_ = {rounded_.ranks + 1, 0};
        }
        return true;
    }

    /// Sums a block of my part as far as it has come from all.
    template <class W>
    void sum_some(Window& window) {
        std::size_t end = std::min(mine().size(), summed_ + block);
        for (std::size_t rank = 0; rank < parts_.size(); ++rank)
            if (rank != mine_) end = std::min(end, exchange_.arrived(rank) / sizeof(W));
        if (end <= summed_) return;
        auto const leaf = [this](int rank) -> W const* {
            auto const r = static_cast<std::size_t>(rank);
            return (r == mine_ ? outgoing<W>(r) : incoming<W>(r)) + summed_;
        };
        ordered_sum(leaf, static_cast<int>(parts_.size()), end - summed_, out_.data() + summed_, add_);
        summed_      = end;
        window.moved = true;
    }

    void take(OrderedReduction& other) noexcept {
        parts_       = other.parts_;
        wire_begin_  = other.wire_begin_;
        wire_        = other.wire_;
        channel_     = other.channel_;
        mine_        = other.mine_;
        elements_    = other.elements_;
        buffer_size_ = other.buffer_size_;
        buffer_      = other.buffer_;
        out_         = other.out_;
        scratch_     = other.scratch_;
        add_         = other.add_;
        result_      = other.result_;
        exchange_    = std::move(other.exchange_);
        summed_      = other.summed_;
        rounded_     = other.rounded_;
        phase_       = std::exchange(other.phase_, Phase::idle);
    }

    std::vector<Range>       parts_;
    std::vector<std::size_t> wire_begin_;  // where each part's rounded elements begin in the scratch
    Wire                     wire_        = Wire::fp32;
    int                      channel_     = 0;
    std::size_t              mine_        = 0;  // my rank
    std::size_t              elements_    = 0;
    std::size_t              buffer_size_ = 0;

    struct Rounded {
        std::size_t ranks = 0, elements = 0;  // whole pieces, beginning with the next rank's, and elements of the one after them
    };
    static constexpr std::size_t block = std::size_t{1} << 17;  // elements

    Exchange     exchange_;
    std::size_t  summed_ = 0;  // elements of my part
    Rounded      rounded_;
    Phase        phase_ = Phase::idle;
    std::span<T> buffer_, out_;
    std::byte*   scratch_ = nullptr;
    bool         add_     = false;
    Result       result_  = Result::scattered;
};

}  // namespace lockstep::comm
