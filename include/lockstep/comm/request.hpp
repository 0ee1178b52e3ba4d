#pragma once
// A started operation.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <ostream>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/comm/backoff.hpp"
#include "lockstep/comm/endpoint.hpp"
#include "lockstep/comm/task.hpp"  // has_abandoned
#include "lockstep/comm/turn.hpp"
#include "lockstep/observe/timeline.hpp"

namespace lockstep::comm {

/// For destructors. A failure that nobody can catch any more ends the job. While an exception unwinds this rank, the others may never
/// do their part: after a second the operation is abandoned, so that the exception reaches whoever ends the job.
template <class Operation>
void wait_or_abandon(Operation& operation) noexcept {
    try {
        if (std::uncaught_exceptions() == 0) return operation.wait();
        auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
        for (Backoff backoff; !operation.advance(); backoff.pause())
            if (has_abandoned || std::chrono::steady_clock::now() > deadline) {
                has_abandoned = true;
                return operation.abandon();
            }
    } catch (Error const& error) {
        std::fprintf(stderr, "%s\n", error.what());
        abort_job(static_cast<int>(error.fault()));
    }
}

/// Waits for an operation as long as its endpoint allows. Raises a peer error that names it.
template <class Operation, class Name>
void wait_until_over(Operation& operation, Endpoint const& end, Name const& name, CollectiveNumber number = {}) {
    if (operation.advance()) return;
    observe::Span const span(observe::Event::agreement);
    Deadline            deadline(end.timeout());
    for (Backoff backoff; !operation.advance(); backoff.pause())
        if (deadline.passed()) deadline.raise(static_cast<std::size_t>(end.rank()), name, number);
}

/// A group of MPI requests that ends together: the chunks of one operation. Move-only; its destructor waits.
/// The memory it reads and writes belongs to the caller until it is done.
class [[nodiscard]] Request {
public:
    /// What a wait that does not end is reported as.
    struct Name {
        std::string_view operation = "";
        std::size_t      bytes     = 0;  // of a collective, that this rank sends or receives, whichever is more
        std::uint64_t    agreement = 0;  // the number of a collective

        friend std::ostream& operator<<(std::ostream& out, Name const& name) {
            out << name.operation;
            return name.bytes == 0 ? out : out << " of " << name.bytes << " bytes";
        }
    };

    Request() = default;

    /// An operation without requests yet. No memory is allocated later if it never has more than `capacity` of them.
    Request(Endpoint end, Name name, std::size_t capacity) : end_(std::move(end)), name_(name) {
        if (capacity > few_.size()) many_.reserve(capacity);
    }
    Request(Endpoint end, std::string_view operation, std::size_t capacity)
        : Request(std::move(end), Name{.operation = operation}, capacity) {}

    Request(Request&& other) noexcept { take(other); }
    Request& operator=(Request&& other) noexcept {
        if (this != &other) {
            finish();
            take(other);
        }
        return *this;
    }
    ~Request() { finish(); }

    /// True when the operation is done; lets MPI make progress. Raises a peer error if it failed.
    bool test() {
        if (count_ == 0) return true;
        Turn const turn;
        for (; done_ < count_; ++done_) {
            MPI_Status status;
            int        flag = 0;
            int const  code = MPI_Test(data() + done_, &flag, &status);
            if (code != MPI_SUCCESS) {  // the memory of the others may be gone before they would have been heard
                ++done_;
                abandon();
            }
            check(code, name_.operation, end_.rank());
            if (flag == 0) return false;
            if (done_ < receives_) count_received(status);
        }
        close();
        return true;
    }

    bool advance() { return test(); }

    void wait() { wait_until_over(*this, end_, name_, {.agreement = name_.agreement}); }

    /// Takes back receives that nothing has arrived for and forgets the rest.
    void abandon() noexcept {
        if (count_ == 0) return;
        Turn const turn;
        end_.retire();
        for (std::size_t i = done_; i < receives_; ++i) MPI_Cancel(data() + i);
        clear();
    }

    // What follows is for the operations of this room. Receives come before everything else.

    Endpoint const& end() const noexcept { return end_; }
    bool            idle() const noexcept { return count_ == 0; }

    void receive(std::span<std::byte> bytes, int from, int tag) {
        for (std::size_t begin = 0; begin < bytes.size(); begin += end_.chunk_bytes()) {
            auto const chunk = bytes.subspan(begin, std::min(end_.chunk_bytes(), bytes.size() - begin));
            add([&](MPI_Request* request) {
                return MPI_Irecv(chunk.data(), static_cast<int>(chunk.size()), MPI_BYTE, from, tag, end_.handle(), request);
            });
            receives_ = count_;
        }
        expected_ += bytes.size();
    }

    void send(std::span<std::byte const> bytes, int to, int tag) {
        for (std::size_t begin = 0; begin < bytes.size(); begin += end_.chunk_bytes()) {
            auto const chunk = bytes.subspan(begin, std::min(end_.chunk_bytes(), bytes.size() - begin));
            add([&](MPI_Request* request) {
                return MPI_Isend(chunk.data(), static_cast<int>(chunk.size()), MPI_BYTE, to, tag, end_.handle(), request);
            });
        }
    }

    /// Adds what `start(MPI_Request*)` starts; it returns MPI's code.
    template <class Start>
    void add(Start const& start) {
        if (many_.empty() && count_ == few_.size()) many_.assign(few_.begin(), few_.end());
        if (!many_.empty()) many_.push_back(MPI_REQUEST_NULL);
        MPI_Request* const request = data() + count_;
        *request                   = MPI_REQUEST_NULL;
        Turn const turn;
        check(start(request), name_.operation, end_.rank());
        ++count_;
    }

private:
    MPI_Request* data() noexcept { return many_.empty() ? few_.data() : many_.data(); }

    void count_received(MPI_Status const& status) {
        int bytes = 0;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        received_ += static_cast<std::size_t>(bytes);
    }

    void close() {
        std::size_t const expected = expected_;
        std::size_t const received = received_;
        clear();
        if (received != expected)
            peer_error("rank ", end_.rank(), ": ", name_.operation, " expected ", expected, " bytes, the other side sent ", received);
    }

    void clear() noexcept {
        many_.clear();
        count_ = done_ = receives_ = expected_ = received_ = 0;
    }

    void take(Request& other) noexcept {
        end_      = other.end_;
        name_     = other.name_;
        few_      = other.few_;
        many_     = std::move(other.many_);
        count_    = other.count_;
        done_     = other.done_;
        receives_ = other.receives_;
        expected_ = other.expected_;
        received_ = other.received_;
        other.clear();
    }

    void finish() noexcept { wait_or_abandon(*this); }

    Endpoint                   end_;
    Name                       name_;
    std::array<MPI_Request, 4> few_{};
    std::vector<MPI_Request>   many_;  // used instead of few_ by operations of many chunks
    std::size_t                count_ = 0, done_ = 0, receives_ = 0;
    std::size_t                expected_ = 0, received_ = 0;  // bytes of the receives
};

}  // namespace lockstep::comm
