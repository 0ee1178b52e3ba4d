#pragma once
// Pieces of memory that go to and come from all other ranks, a few chunks at a time.

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/comm/endpoint.hpp"
#include "lockstep/comm/task.hpp"
#include "lockstep/comm/turn.hpp"
#include "lockstep/core/assertion.hpp"

namespace lockstep::comm {

/// One piece to and one from each other rank, cut into chunks of at most `Endpoint::chunk_bytes`. MPI moves what it has in the order in
/// which it got it, so it gets few chunks at once: the others can be overtaken. All memory is allocated by the constructor. May be moved
/// while in flight, but not assigned to then.
class Exchange {
public:
    Exchange() = default;
    Exchange(Exchange&& other) noexcept { *this = std::move(other); }
    Exchange& operator=(Exchange&& other) noexcept {
        end_       = other.end_;
        operation_ = other.operation_;
        streams_   = std::move(other.streams_);
        first_     = std::move(other.first_);
        stream_    = std::move(other.stream_);
        over_      = std::move(other.over_);
        statuses_  = std::move(other.statuses_);
        open_      = std::exchange(other.open_, 0);
        return *this;
    }
    Exchange(Endpoint end, std::string_view operation)
        : end_(std::move(end)), operation_(operation), streams_(2 * static_cast<std::size_t>(end_.size())) {
        first_.resize(streams_.size());
        stream_.resize(streams_.size());
        over_.resize(streams_.size());
        statuses_.resize(streams_.size());
    }

    Endpoint const& end() const noexcept { return end_; }
    bool            idle() const noexcept { return open_ == 0; }

    void receive(std::size_t from, std::span<std::byte> bytes, int tag) { open(streams_[from], bytes, bytes.size(), tag); }

    /// Only the first `ready` bytes may leave yet; see `release`.
    void send(std::size_t to, std::span<std::byte const> bytes, int tag, std::size_t ready) {
        open(streams_[ranks() + to], {const_cast<std::byte*>(bytes.data()), bytes.size()}, ready, tag);  // MPI_Isend only reads
    }
    void send(std::size_t to, std::span<std::byte const> bytes, int tag) { send(to, bytes, tag, bytes.size()); }
    void release(std::size_t to, std::size_t ready) noexcept { streams_[ranks() + to].ready = ready; }

    /// Bytes that have come from a rank, from the beginning of its piece.
    std::size_t arrived(std::size_t from) const noexcept { return std::min(streams_[from].bytes, streams_[from].done * chunk()); }

    /// Does what can be done without waiting; true when all pieces have come and gone. Raises a peer error if MPI failed or the other
    /// side sends another number of bytes.
    bool advance(Window& window) {
        if (open_ == 0) return true;
        Turn const        turn;
        std::size_t const all = ranks(), mine = static_cast<std::size_t>(end_.rank());
        while (end_some(window)) {}
        for (std::size_t step = 1; step < all; ++step) begin_receives((mine + all - step) % all, window);
        for (std::size_t step = 1; step < all; ++step) begin_sends((mine + step) % all, window);
        return open_ == 0;
    }

    /// Takes back receives that nothing has arrived for and forgets the rest.
    void abandon() noexcept {
        if (open_ == 0) return;
        Turn const turn;
        end_.retire();
        for (std::size_t s = 0; s < streams_.size(); ++s) {
            Stream& stream = streams_[s];
            for (std::size_t i = stream.done; s < ranks() && i < stream.begun; ++i) MPI_Cancel(&stream.requests[i % most]);
            stream.open = false;
        }
        open_ = 0;
    }

private:
    static constexpr std::size_t most = 8;  // chunks of a stream that MPI has at once

    struct Stream {
        std::byte*                    data  = nullptr;
        std::size_t                   bytes = 0;
        std::size_t                   ready = 0;
        int                           tag   = 0;
        bool                          open  = false;
        std::size_t                   begun = 0, done = 0;  // chunks
        std::array<MPI_Request, most> requests{};
    };

    std::size_t ranks() const noexcept { return streams_.size() / 2; }
    std::size_t chunk() const noexcept { return end_.chunk_bytes(); }

    void open(Stream& stream, std::span<std::byte> bytes, std::size_t ready, int tag) {
        stream.data  = bytes.data();
        stream.bytes = bytes.size();
        stream.ready = ready;
        stream.tag   = tag;
        stream.begun = stream.done = 0;
        stream.open                = !bytes.empty();
        open_ += stream.open;
    }

    /// Asks MPI once after the first open chunk of each stream; true when one of them is over.
    bool end_some(Window& window) {
        int count = 0, over = 0;
        for (std::size_t s = 0; s < streams_.size(); ++s)
            if (Stream const& stream = streams_[s]; stream.open && stream.done < stream.begun) {
                first_[static_cast<std::size_t>(count)]  = stream.requests[stream.done % most];
                stream_[static_cast<std::size_t>(count)] = s;
                ++count;
            }
        if (count == 0) return false;
        int code = MPI_Testsome(count, first_.data(), &over, over_.data(), statuses_.data());
        for (int i = 0; code == MPI_ERR_IN_STATUS && i < over; ++i) {
            int const error = statuses_[static_cast<std::size_t>(i)].MPI_ERROR;
            if (error != MPI_SUCCESS && error != MPI_ERR_PENDING) code = error;
        }
        check(code, operation_, end_.rank());
        if (over == MPI_UNDEFINED || over == 0) return false;
        for (std::size_t i = 0; i < static_cast<std::size_t>(over); ++i) {
            std::size_t const s      = stream_[static_cast<std::size_t>(over_[i])];
            Stream&           stream = streams_[s];
            if (s < ranks()) check_received(statuses_[i], part(stream, stream.done).size());
            if (++stream.done == end_.chunks(stream.bytes)) {
                stream.open = false;
                --open_;
            }
        }
        window.moved = true;
        return true;
    }

    void begin_receives(std::size_t from, Window& window) {
        Stream& stream = streams_[from];
        begin_chunks(stream, most, window, [&](std::span<std::byte> part, MPI_Request* request) {
            return MPI_Irecv(part.data(), static_cast<int>(part.size()), MPI_BYTE, static_cast<int>(from), stream.tag, end_.handle(),
                             request);
        });
    }
    void begin_sends(std::size_t to, Window& window) {
        Stream& stream = streams_[ranks() + to];
        begin_chunks(stream, window.depth, window, [&](std::span<std::byte> part, MPI_Request* request) {
            return MPI_Isend(part.data(), static_cast<int>(part.size()), MPI_BYTE, static_cast<int>(to), stream.tag, end_.handle(),
                             request);
        });
        window.in_flight = std::max(window.in_flight, stream.begun - stream.done);
    }

    /// Hands MPI as many chunks as the depth leaves, and no byte that is not ready.
    template <class Begin>
    void begin_chunks(Stream& stream, std::size_t depth, Window& window, Begin const& begin) {
        if (!stream.open) return;
        std::size_t const chunks = end_.chunks(stream.bytes);
        for (; stream.begun < chunks && stream.begun - stream.done < std::min(depth, most); ++stream.begun) {
            std::span<std::byte> const bytes = part(stream, stream.begun);
            if (bytes.data() + bytes.size() > stream.data + stream.ready) break;
            check(begin(bytes, &stream.requests[stream.begun % most]), operation_, end_.rank());
            window.moved = true;
        }
    }

    std::span<std::byte> part(Stream const& stream, std::size_t index) const noexcept {
        std::size_t const begin = index * chunk();
        return {stream.data + begin, std::min(chunk(), stream.bytes - begin)};
    }

    void check_received(MPI_Status const& status, std::size_t expected) const {
        int bytes = 0;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        if (static_cast<std::size_t>(bytes) != expected)
            peer_error("rank ", end_.rank(), ": ", operation_, " expected ", expected, " bytes, rank ", status.MPI_SOURCE, " sent ", bytes);
    }

    Endpoint            end_;
    std::string_view    operation_ = "";
    std::vector<Stream> streams_;   // from each rank, then to each rank
    std::size_t         open_ = 0;  // streams that are not over

    // What MPI is asked after, and what it answers.
    std::vector<MPI_Request> first_;   // chunk of each stream that has one open
    std::vector<std::size_t> stream_;  // which stream that is
    std::vector<int>         over_;
    std::vector<MPI_Status>  statuses_;
};

}  // namespace lockstep::comm
