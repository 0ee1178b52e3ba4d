#pragma once
// Sums of a buffer over the ranks whose bits do not depend on how the buffer was cut.

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
    template <parts_by_rank Parts = std::vector<Part>>
    OrderedReduction(Endpoint const& end, Parts const& parts, Wire wire, int channel)
        : parts_(part_table(parts, end.size(), "ordered reduction")), wire_(wire), channel_(channel) {
        require(channel >= 0 && channel < Endpoint::channels, "ordered reduction: channel ", channel, " is not below ", Endpoint::channels);
        require(end.size() <= most_leaves, "ordered reduction: ", end.size(), " ranks are more than ", most_leaves);
        mine_ = static_cast<std::size_t>(end.rank());
        for (Part const& part : parts_) {
            wire_begin_.push_back(elements_);
            elements_ += part.size();
            buffer_size_ = std::max(buffer_size_, part.end);
        }
        request_ = Request(end, "ordered reduction", exchange_chunks(end, sizeof(T), parts_));  // the scatter has no more
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

    /// Starts the sum of `buffer`. Scattered: `mine` gets (or has added) the sums of my part, and may be that part of the buffer.
    /// Gathered: the sums replace the parts of `buffer` on every rank; `mine` is not used. All spans stay in use until it is done.
    void start(std::span<T> buffer, std::span<T> mine, bool add, Result result, std::span<std::byte> scratch) {
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
        if (wire_ == Wire::bf16)
            scatter<precision::bfloat16>();
        else
            scatter<T>();
        phase_ = Phase::scattering;
    }

    /// Does what can be done without waiting; true when the operation is done.
    bool advance() {
        if (phase_ == Phase::idle) return true;
        if (!request_.test()) return false;
        if (phase_ == Phase::scattering) {
            if (wire_ == Wire::bf16)
                sum<precision::bfloat16>();
            else
                sum<T>();
            phase_ = Phase::idle;
            if (result_ == Result::scattered) return true;
            gather();
            phase_ = Phase::gathering;
            if (!request_.test()) return false;
        }
        phase_ = Phase::idle;
        return true;
    }

    void wait() {
        for (Backoff backoff; !advance();) backoff.pause();
    }

    void abandon() noexcept {
        request_.abandon();
        phase_ = Phase::idle;
    }

private:
    enum class Phase { idle, scattering, gathering };

    Part const&  mine() const noexcept { return parts_[mine_]; }
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

    /// Calls body(rank) for the other ranks, starting with the next one, so that not all of them send to the same rank at once.
    template <class Body>
    void for_others(Body const& body) const {
        for (std::size_t step = 1; step < parts_.size(); ++step) body((mine_ + step) % parts_.size());
    }

    template <class W>
    void scatter() {
        int const tag = Endpoint::tag(channel_, Endpoint::Use::scatter);
        for_others([&](std::size_t rank) {
            request_.receive(std::as_writable_bytes(std::span(incoming<W>(rank), mine().size())), static_cast<int>(rank), tag);
        });
        if constexpr (!std::is_same_v<W, T>) round_part<W>(mine_);
        for_others([&](std::size_t rank) {
            if constexpr (!std::is_same_v<W, T>) round_part<W>(rank);
            request_.send(std::as_bytes(std::span(outgoing<W>(rank), parts_[rank].size())), static_cast<int>(rank), tag);
        });
    }

    template <class W>
    void round_part(std::size_t rank) {
        std::span<T const> const from = part_of(rank);
        W* const                 to   = outgoing<W>(rank);
        for (std::size_t i = 0; i < from.size(); ++i) to[i] = W(static_cast<float>(from[i]));
    }

    template <class W>
    void sum() {
        auto const leaf = [this](int rank) -> W const* {
            auto const r = static_cast<std::size_t>(rank);
            return r == mine_ ? outgoing<W>(r) : incoming<W>(r);
        };
        ordered_sum(leaf, static_cast<int>(parts_.size()), mine().size(), out_.data(), add_);
    }

    void gather() {
        exchange_parts(request_, std::as_writable_bytes(buffer_), sizeof(T), parts_, Endpoint::tag(channel_, Endpoint::Use::gather));
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
        request_     = std::move(other.request_);
        phase_       = std::exchange(other.phase_, Phase::idle);
    }

    std::vector<Part>        parts_;
    std::vector<std::size_t> wire_begin_;  // where each part's rounded elements begin in the scratch
    Wire                     wire_        = Wire::fp32;
    int                      channel_     = 0;
    std::size_t              mine_        = 0;  // my rank
    std::size_t              elements_    = 0;
    std::size_t              buffer_size_ = 0;

    Request      request_;
    Phase        phase_ = Phase::idle;
    std::span<T> buffer_, out_;
    std::byte*   scratch_ = nullptr;
    bool         add_     = false;
    Result       result_  = Result::scattered;
};

}  // namespace lockstep::comm
