#pragma once
// Every rank's part of a buffer comes to all ranks.

#include <algorithm>
#include <climits>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/comm/exchange.hpp"
#include "lockstep/comm/fwd.hpp"
#include "lockstep/comm/part.hpp"
#include "lockstep/comm/request.hpp"
#include "lockstep/core/assertion.hpp"

namespace lockstep::comm {

/// Sends the range `parts[rank]` of `buffer` to all others and receives theirs, in place, as part of a request without other
/// requests. The ranges may be uneven or empty.
inline void exchange_parts(Request& request, std::span<std::byte> buffer, std::size_t element, std::span<Range const> parts, int tag) {
    auto const mine  = static_cast<std::size_t>(request.end().rank());
    auto const bytes = [&](std::size_t rank) { return buffer.subspan(parts[rank].begin * element, parts[rank].size() * element); };
    for (std::size_t step = 1; step < parts.size(); ++step) {
        std::size_t const from = (mine + parts.size() - step) % parts.size();
        request.receive(bytes(from), static_cast<int>(from), tag);
    }
    for (std::size_t step = 1; step < parts.size(); ++step) request.send(bytes(mine), static_cast<int>((mine + step) % parts.size()), tag);
}

/// Chunks that `exchange_parts` makes of them.
inline std::size_t exchange_chunks(Endpoint const& end, std::size_t element, std::span<Range const> parts) {
    std::size_t count = 0;
    for (Range const& part : parts) count += end.chunks(part.size() * element);
    std::size_t const mine = end.chunks(parts[static_cast<std::size_t>(end.rank())].size() * element);
    return count - mine + (parts.size() - 1) * mine;
}

/// The same for an exchange.
inline void exchange_parts(Exchange& exchange, std::span<std::byte> buffer, std::size_t element, std::span<Range const> parts, int tag) {
    auto const mine  = static_cast<std::size_t>(exchange.end().rank());
    auto const bytes = [&](std::size_t rank) { return buffer.subspan(parts[rank].begin * element, parts[rank].size() * element); };
    for (std::size_t rank = 0; rank < parts.size(); ++rank)
        if (rank != mine) {
            exchange.receive(rank, bytes(rank), tag);
            exchange.send(rank, bytes(mine), tag);
        }
}

/// Gathers in place: before, my part is in its range of the buffer; afterwards all parts are. Can be started again and again
/// without allocating memory. All ranks construct it with the same parts and channel and start operations of one channel in the
/// same order; different channels may be in flight together. The vendor's way is one MPI_Iallgatherv: then all operations of a communicator
/// take their first steps in the same order. The destructor waits.
template <class T>
class AllGather {
public:
    AllGather(Endpoint const& end, std::span<Range const> parts, int channel, Reduction how = Reduction::ordered)
        : parts_(part_table(parts, end.size(), "all_gather")),
          channel_(channel),
          exchange_(end, "all_gather"),
          vendor_(end, "all_gather", 1) {
        require(channel >= 0 && channel < Endpoint::channels, "all_gather: channel ", channel, " is not below ", Endpoint::channels);
        for (Range const& part : parts_) {
            buffer_size_ = std::max(buffer_size_, part.end);
            if (how == Reduction::ordered) continue;
            require(part.end * sizeof(T) <= INT_MAX, "all_gather: MPI_Iallgatherv takes less than 2 GiB, a part ends at ", part.end);
            begins_.push_back(static_cast<int>(part.begin * sizeof(T)));
            counts_.push_back(static_cast<int>(part.size() * sizeof(T)));
        }
    }

    AllGather(AllGather&& other) noexcept { take(other); }
    AllGather& operator=(AllGather&& other) noexcept {
        if (this != &other) {
            wait_or_abandon(*this);
            take(other);
        }
        return *this;
    }
    ~AllGather() { wait_or_abandon(*this); }

    /// The buffer stays in use until it is done.
    void start(std::span<T> buffer) {
        prepare(buffer);
        advance();
    }
    /// The same, but nothing moves before the first step.
    void prepare(std::span<T> buffer) {
        require(exchange_.idle() && vendor_.idle() && buffer_.empty(), "all_gather: started before the one before it on channel ", channel_,
                " is done");
        require(buffer.size() >= buffer_size_, "all_gather: the buffer has ", buffer.size(), " elements, its parts need ", buffer_size_);
        auto const bytes = std::as_writable_bytes(buffer);
        if (parts_.size() == 1) return;
        if (counts_.empty())
            exchange_parts(exchange_, bytes, sizeof(T), parts_, Endpoint::tag(channel_, Endpoint::Use::all_gather));
        else
            buffer_ = bytes;
    }

    /// Does what can be done without waiting; true when the operation is done.
    bool advance(Window& window) {
        if (counts_.empty()) return exchange_.advance(window);
        if (!buffer_.empty() && window.depth > 0) {
            vendor_.add([&](MPI_Request* request) {
                return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, buffer_.data(), counts_.data(), begins_.data(), MPI_BYTE,
                                       vendor_.end().handle(), request);
            });
            buffer_      = {};
            window.moved = true;
        }
        window.in_flight = buffer_.empty() && vendor_.idle() ? 0 : 1;
        return buffer_.empty() && vendor_.test();
    }
    bool advance() {
        Window window;
        return advance(window);
    }
    void wait() { wait_until_over(*this, vendor_.end(), "all_gather"); }

    void abandon() noexcept {
        exchange_.abandon();
        vendor_.abandon();
        buffer_ = {};
    }

private:
    void take(AllGather& other) noexcept {
        parts_       = std::move(other.parts_);
        begins_      = std::move(other.begins_);
        counts_      = std::move(other.counts_);
        channel_     = other.channel_;
        buffer_size_ = other.buffer_size_;
        exchange_    = std::move(other.exchange_);
        vendor_      = std::move(other.vendor_);
        buffer_      = std::exchange(other.buffer_, {});
    }

    std::vector<Range>   parts_;
    std::vector<int>     begins_, counts_;  // of each rank, bytes; empty unless the vendor gathers
    int                  channel_     = 0;
    std::size_t          buffer_size_ = 0;
    Exchange             exchange_;
    Request              vendor_;
    std::span<std::byte> buffer_;  // of a vendor's gather that has not begun
};

}  // namespace lockstep::comm
