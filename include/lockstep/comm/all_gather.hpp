#pragma once
// Every rank's part of a buffer comes to all ranks.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/comm/fwd.hpp"
#include "lockstep/comm/part.hpp"
#include "lockstep/comm/request.hpp"
#include "lockstep/core/assertion.hpp"

namespace lockstep::comm {

/// Sends the range `parts[rank]` of `buffer` to all others and receives theirs, in place, as part of a request without other
/// requests. The ranges may be uneven or empty.
inline void exchange_parts(Request& request, std::span<std::byte> buffer, std::size_t element, std::span<Part const> parts, int tag) {
    auto const mine  = static_cast<std::size_t>(request.end().rank());
    auto const bytes = [&](std::size_t rank) { return buffer.subspan(parts[rank].begin * element, parts[rank].size() * element); };
    for (std::size_t step = 1; step < parts.size(); ++step) {
        std::size_t const from = (mine + parts.size() - step) % parts.size();
        request.receive(bytes(from), static_cast<int>(from), tag);
    }
    for (std::size_t step = 1; step < parts.size(); ++step) request.send(bytes(mine), static_cast<int>((mine + step) % parts.size()), tag);
}

/// Chunks that `exchange_parts` makes of them.
inline std::size_t exchange_chunks(Endpoint const& end, std::size_t element, std::span<Part const> parts) {
    std::size_t count = 0;
    for (Part const& part : parts) count += end.chunks(part.size() * element);
    std::size_t const mine = end.chunks(parts[static_cast<std::size_t>(end.rank())].size() * element);
    return count - mine + (parts.size() - 1) * mine;
}

/// Gathers in place: before, my part is in its range of the buffer; afterwards all parts are. Can be started again and again
/// without allocating memory. All ranks construct it with the same parts and channel and start operations of one channel in the
/// same order; different channels may be in flight together. The destructor waits.
template <class T>
class AllGather {
public:
    template <parts_by_rank Parts = std::vector<Part>>
    AllGather(Endpoint const& end, Parts const& parts, int channel)
        : parts_(part_table(parts, end.size(), "all_gather")),
          channel_(channel),
          request_(end, "all_gather", exchange_chunks(end, sizeof(T), parts_)) {
        require(channel >= 0 && channel < Endpoint::channels, "all_gather: channel ", channel, " is not below ", Endpoint::channels);
        for (Part const& part : parts_) buffer_size_ = std::max(buffer_size_, part.end);
    }

    /// The buffer stays in use until it is done.
    void start(std::span<T> buffer) {
        require(request_.idle(), "all_gather: started before the one before it on channel ", channel_, " is done");
        require(buffer.size() >= buffer_size_, "all_gather: the buffer has ", buffer.size(), " elements, its parts need ", buffer_size_);
        exchange_parts(request_, std::as_writable_bytes(buffer), sizeof(T), parts_, Endpoint::tag(channel_, Endpoint::Use::all_gather));
    }

    /// Does what can be done without waiting; true when the operation is done.
    bool advance() { return request_.test(); }
    void wait() { request_.wait(); }

private:
    std::vector<Part> parts_;
    int               channel_     = 0;
    std::size_t       buffer_size_ = 0;
    Request           request_;
};

}  // namespace lockstep::comm
