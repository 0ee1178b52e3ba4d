#pragma once
// A group of ranks that talk to each other.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/comm/all_gather.hpp"
#include "lockstep/comm/any_reduction.hpp"
#include "lockstep/comm/ordered_reduction.hpp"
#include "lockstep/comm/progress_engine.hpp"
#include "lockstep/comm/request.hpp"
#include "lockstep/comm/within.hpp"
#include "lockstep/core/assertion.hpp"

namespace lockstep::comm {

/// A handle, cheap to copy; the last copy frees the MPI communicator. Collectives are called by all its ranks in the same order
/// with the same sizes. Buffers are spans, vectors or arrays; send and receive buffer may be the same; zero elements are a no-op.
/// `start_...` returns at once, and its buffers stay in use until the request is done. Waiting yields the core.
class Communicator {
public:
    using Engine = ProgressEngine;

    explicit Communicator(Endpoint end) : end_(std::move(end)) {}
    operator Endpoint const&() const noexcept { return end_; }

    int rank() const noexcept { return end_.rank(); }
    int size() const noexcept { return end_.size(); }

    /// The same communicator that never lets MPI move more than this many bytes at once.
    Communicator with_chunk_bytes(std::size_t bytes) const {
        Communicator copy = *this;
        copy.end_.set_chunk_bytes(bytes);
        return copy;
    }

    /// The same communicator whose operations raise a peer error when they are waited for longer than this.
    Communicator with_timeout(double seconds) const {
        Communicator copy = *this;
        copy.end_.set_timeout(seconds);
        return copy;
    }

    // Groups. Collective over this communicator; nothing that a progress engine carries forward may be in flight.

    /// Ranks of one color form a group, ordered by key, then by rank here.
    Communicator split(int color, int key = 0) const {
        require(color >= 0, "split: color ", color, " is negative");
        return derived("split", [&](MPI_Comm* group) { return MPI_Comm_split(end_.handle(), color, key, group); });
    }
    /// The same ranks with messages of their own.
    Communicator duplicate() const {
        return derived("duplicate", [&](MPI_Comm* group) { return MPI_Comm_dup(end_.handle(), group); });
    }
    /// The ranks that share memory with this one: its node.
    Communicator node() const {
        return derived("node",
                       [&](MPI_Comm* group) { return MPI_Comm_split_type(end_.handle(), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, group); });
    }

    // Point to point. Tags are in [0, 16384). A wait that does not end is reported under `name`.

    template <movable_data R>
    Request start_send(R const& data, int to, int tag = 0, std::string_view name = "send") const {
        auto const bytes   = bytes_of(data);
        Request    request = open(name, end_.chunks(bytes.size()), to, tag);
        request.send(bytes, to, tag);
        return request;
    }
    /// The other side must send exactly as many bytes.
    template <movable_target R>
    Request start_receive(R&& data, int from, int tag = 0, std::string_view name = "receive") const {
        auto const bytes   = writable_bytes_of(data);
        Request    request = open(name, end_.chunks(bytes.size()), from, tag);
        request.receive(bytes, from, tag);
        return request;
    }
    template <movable_data R>
    void send(R const& data, int to, int tag = 0, std::string_view name = "send") const {
        start_send(data, to, tag, name).wait();
    }
    template <movable_target R>
    void receive(R&& data, int from, int tag = 0, std::string_view name = "receive") const {
        start_receive(data, from, tag, name).wait();
    }

    // Collectives.

    Request start_barrier() const {
        Request request = collective("barrier", 1, 0);
        if (size() > 1) request.add([&](MPI_Request* r) { return MPI_Ibarrier(end_.handle(), r); });
        return request;
    }
    void barrier() const { start_barrier().wait(); }

    template <movable_target R>
    Request start_broadcast(R&& data, int root) const {
        auto const bytes = writable_bytes_of(data);
        require(root >= 0 && root < size(), "broadcast: rank ", root, " is not one of ", size());
        Request request = collective("broadcast", end_.chunks(bytes.size()), bytes.size());
        if (size() > 1)
            for_chunks(bytes, [&](std::span<std::byte> chunk) {
                request.add([&](MPI_Request* r) {
                    return MPI_Ibcast(chunk.data(), static_cast<int>(chunk.size()), MPI_BYTE, root, end_.handle(), r);
                });
            });
        return request;
    }
    template <movable_target R>
    void broadcast(R&& data, int root) const {
        start_broadcast(data, root).wait();
    }

    /// The vendor's reduction: its order of sums is its own. Gradients go by `ordered_reduction`.
    template <combinable_data S, combinable_target_for<S> R>
    Request start_all_reduce(S const& send, R&& receive, Combine combine) const {
        using T = std::ranges::range_value_t<R>;
        std::span<T> const to(receive);
        return start_reduction(std::span<T const>(send), to, combine,
                               collective("all_reduce", end_.chunks(to.size_bytes()), to.size_bytes()));
    }
    template <combinable_target R>
    Request start_all_reduce(R&& data, Combine combine) const {
        return start_all_reduce(data, data, combine);
    }
    template <combinable_data S, combinable_target_for<S> R>
    void all_reduce(S const& send, R&& receive, Combine combine = Combine::sum) const {
        start_all_reduce(send, receive, combine).wait();
    }
    template <combinable_target R>
    void all_reduce(R&& data, Combine combine = Combine::sum) const {
        start_all_reduce(data, data, combine).wait();
    }

    /// The vendor's reduction of `data`, of which `mine` gets the part of this rank; it may be that part of `data` itself.
    template <combinable_data S, combinable_target_for<S> R>
    Request start_reduce_scatter(S const& data, std::span<Range const> parts, R&& mine, Combine combine = Combine::sum) const {
        using T                        = std::ranges::range_value_t<R>;
        std::vector<Range> const table = part_table(parts, size(), "reduce_scatter");
        std::span<T const> const all(data);
        std::span<T> const       out(mine);
        std::size_t              chunks = 0;
        for (Range const& part : table) {
            require(part.end <= all.size(), "reduce_scatter: a part ends at ", part.end, " of ", all.size(), " elements");
            chunks += end_.chunks(part.size() * sizeof(T));
        }
        Range const own = table[static_cast<std::size_t>(rank())];
        require(own.size() == out.size(), "reduce_scatter: the part of rank ", rank(), " has ", own.size(), " elements, `mine` has ",
                out.size());
        bool const in_place = all.data() + own.begin == out.data();
        Request    request  = collective("reduce_scatter", chunks, all.size_bytes());
        if (size() == 1) {
            if (!in_place) std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(own.begin), own.size(), out.begin());
            return request;
        }
        for (int root = 0; root < size(); ++root) {
            Range const part  = table[static_cast<std::size_t>(root)];
            auto const  piece = all.subspan(part.begin, part.size());
            for_chunks(piece, [&](std::span<T const> chunk) {
                T* const          target = root == rank() ? out.data() + (chunk.data() - piece.data()) : nullptr;
                void const* const source = root == rank() && in_place ? MPI_IN_PLACE : chunk.data();
                request.add([&](MPI_Request* r) {
                    return MPI_Ireduce(source, target, static_cast<int>(chunk.size()), datatype<T>(), operation(combine), root,
                                       end_.handle(), r);
                });
            });
        }
        return request;
    }
    template <combinable_data S, combinable_target_for<S> R>
    void reduce_scatter(S const& data, std::span<Range const> parts, R&& mine, Combine combine = Combine::sum) const {
        start_reduce_scatter(data, parts, mine, combine).wait();
    }
    /// Equal parts: `data` has size() times as many elements as `mine`.
    template <combinable_data S, combinable_target_for<S> R>
    void reduce_scatter(S const& data, R&& mine, Combine combine = Combine::sum) const {
        reduce_scatter(data, equal_parts(std::ranges::size(mine), size()), mine, combine);
    }

    /// In place: each rank's part of `data` comes to all ranks.
    template <movable_target R>
    Request start_all_gather(R&& data, std::span<Range const> parts) const {
        std::vector<Range> const table   = part_table(parts, size(), "all_gather");
        std::size_t const        element = sizeof(std::ranges::range_value_t<R>);
        for (Range const& part : table)
            require(part.end <= std::ranges::size(data), "all_gather: a part ends at ", part.end, " of ", std::ranges::size(data),
                    " elements");
        Request request = collective("all_gather", exchange_chunks(end_, element, table), std::ranges::size(data) * element);
        exchange_parts(request, writable_bytes_of(data), element, table, Endpoint::first_reserved_tag);
        return request;
    }
    template <movable_target R>
    void all_gather(R&& data, std::span<Range const> parts) const {
        start_all_gather(data, parts).wait();
    }
    /// Equal parts: `all` has size() times as many elements as `mine`, which may be this rank's part of it.
    template <movable_data S, movable_target_for<S> R>
    void all_gather(S const& mine, R&& all) const {
        using T = std::ranges::range_value_t<R>;
        std::span<T const> const from(mine);
        std::span<T> const       to(all);
        require(to.size() == from.size() * static_cast<std::size_t>(size()), "all_gather: ", size(), " parts of ", from.size(),
                " elements do not make ", to.size());
        auto const target = to.subspan(static_cast<std::size_t>(rank()) * from.size(), from.size());
        if (from.data() != target.data()) std::copy(from.begin(), from.end(), target.begin());
        all_gather(to, equal_parts(from.size(), size()));
    }

    // Small ones.

    template <combinable_element T>
    T sum(T value) const {
        return combined(value, Combine::sum);
    }
    template <combinable_element T>
    T max(T value) const {
        return combined(value, Combine::max);
    }
    template <combinable_element T>
    T min(T value) const {
        return combined(value, Combine::min);
    }

    /// Exact sums of integers in place, to be waited for later, by an engine for example: it is no agreement, of which ranks count the
    /// same.
    Request start_sum(std::span<std::int64_t> words) const {
        return start_reduction(std::span<std::int64_t const>(words), words, Combine::sum,
                               Request(end_, "sum", end_.chunks(words.size_bytes())));
    }

    /// Every rank's value, in rank order.
    std::vector<std::uint64_t> gather_values(std::uint64_t value) const {
        std::vector<std::uint64_t> values(static_cast<std::size_t>(size()));
        all_gather(std::span(&value, 1), values);
        return values;
    }

    // Operations that are started again and again; see their classes.

    template <class T = float>
    OrderedReduction<T> ordered_reduction(std::span<Range const> parts, Wire wire, int channel) const {
        return {end_, parts, wire, channel};
    }
    template <class T = float>
    AnyReduction<T> reduction(std::span<Range const> parts, Wire wire, Reduction how, int channel) const {
        return {end_, parts, wire, how, channel};
    }
    template <class T>
    AllGather<T> all_gather(std::span<Range const> parts, int channel, Reduction how = Reduction::ordered) const {
        return {end_, parts, channel, how};
    }

private:
    template <class Make>
    Communicator derived(std::string_view name, Make const& make) const {
        barrier();  // MPI makes groups in calls that block: none is entered that a rank has not come to
        Turn const turn;
        MPI_Comm   group = MPI_COMM_NULL;
        check(size() == 1 ? make(&group)
                          : with_all_ranks(end_.timeout(), name, sentence("rank ", rank(), ": "), [&] { return make(&group); }),
              name, rank());
        Communicator result{Endpoint::adopt(group)};
        result.end_.set_chunk_bytes(end_.chunk_bytes());
        result.end_.set_timeout(end_.timeout());
        return result;
    }

    Request open(std::string_view name, std::size_t chunks, int peer, int tag) const {
        require(peer >= 0 && peer < size(), name, ": rank ", peer, " is not one of ", size());
        require(tag >= 0 && tag < Endpoint::first_reserved_tag, name, ": tag ", tag, " is not below ", Endpoint::first_reserved_tag);
        return {end_, name, chunks};
    }

    Request collective(std::string_view name, std::size_t chunks, std::size_t bytes) const {
        return {end_, Request::Name{.operation = name, .bytes = bytes, .agreement = end_.next_agreement()}, chunks};
    }

    /// Calls body(chunk) for pieces of at most chunk_bytes(), but at least one element.
    template <class T, class Body>
    void for_chunks(std::span<T> data, Body const& body) const {
        std::size_t const elements = std::max<std::size_t>(1, end_.chunk_bytes() / sizeof(T));
        for (std::size_t begin = 0; begin < data.size(); begin += elements)
            body(data.subspan(begin, std::min(elements, data.size() - begin)));
    }

    template <class T>
    Request start_reduction(std::span<T const> from, std::span<T> to, Combine combine, Request request) const {
        require(from.size() == to.size(), "all_reduce: sends ", from.size(), " elements, receives ", to.size());
        bool const in_place = from.data() == to.data();
        if (size() == 1 && !in_place) std::copy(from.begin(), from.end(), to.begin());
        if (size() > 1)
            for_chunks(to, [&](std::span<T> chunk) {
                void const* const source = in_place ? MPI_IN_PLACE : from.data() + (chunk.data() - to.data());
                request.add([&](MPI_Request* r) {
                    return MPI_Iallreduce(source, chunk.data(), static_cast<int>(chunk.size()), datatype<T>(), operation(combine),
                                          end_.handle(), r);
                });
            });
        return request;
    }

    template <class T>
    T combined(T value, Combine combine) const {
        all_reduce(std::span(&value, 1), combine);
        return value;
    }

    Endpoint end_;
};

}  // namespace lockstep::comm
