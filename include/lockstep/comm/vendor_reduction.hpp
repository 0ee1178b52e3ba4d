#pragma once
// Sums of a buffer over the ranks by MPI's own collectives, for comparison with the ordered ones.

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/comm/part.hpp"
#include "lockstep/comm/request.hpp"
#include "lockstep/comm/task.hpp"
#include "lockstep/core/assertion.hpp"

namespace lockstep::comm {

/// Has the operations of an `OrderedReduction`. Gathered: an MPI_Iallreduce for each chunk of the buffer. Scattered: one
/// MPI_Ireduce_scatter, which nothing can overtake. All operations of a communicator take their first steps in the same order on all
/// ranks, so they begin chunks in the same order. The order of sums is the vendor's. The destructor waits.
template <class T = float>
class VendorReduction {
public:
    VendorReduction(Endpoint const& end, std::span<Range const> parts) : end_(end) {
        std::vector<Range> const table = part_table(parts, end.size(), "reduction");
        whole_                         = {table.front().begin, table.back().end};
        for (std::size_t rank = 0; rank < table.size(); ++rank) {
            require(table[rank].size() <= INT_MAX, "reduction: a part has ", table[rank].size(), " elements, MPI takes ", INT_MAX);
            require(rank == 0 || table[rank].begin == table[rank - 1].end,
                    "reduction: the vendor's takes parts that lie one after another");
            counts_.push_back(static_cast<int>(table[rank].size()));
        }
    }
    VendorReduction(VendorReduction&& other) noexcept { take(other); }
    VendorReduction& operator=(VendorReduction&& other) noexcept {
        if (this != &other) {
            wait_or_abandon(*this);
            take(other);
        }
        return *this;
    }
    ~VendorReduction() { wait_or_abandon(*this); }

    std::size_t scratch_bytes() const noexcept { return mine() * sizeof(T); }

    /// See `OrderedReduction::prepare`.
    void prepare(std::span<T> buffer, std::span<T> mine_out, bool add, Result result, std::span<std::byte> scratch) {
        require(!busy_, "reduction: started before the one before it is done");
        require(buffer.size() >= whole_.end, "reduction: the buffer has ", buffer.size(), " elements, its parts need ", whole_.end);
        require(scratch.size() >= scratch_bytes(), "reduction: the scratch has ", scratch.size(), " bytes of ", scratch_bytes());
        require(result == Result::gathered || mine_out.size() == mine(), "reduction: `mine` has ", mine_out.size(),
                " elements, my part has ", mine());
        data_    = buffer.subspan(whole_.begin, whole_.size());
        out_     = mine_out;
        add_     = add;
        result_  = result;
        scratch_ = reinterpret_cast<T*>(scratch.data());
        begun_ = done_ = 0;
        busy_          = true;
    }

    /// Does what can be done without waiting; true when the operation is done.
    bool advance(Window& window) {
        if (!busy_) return true;
        bool const        gathered = result_ == Result::gathered;
        std::size_t const chunks   = gathered ? (data_.size() + chunk() - 1) / chunk() : 1;
        {
            Turn const turn;
            for (; done_ < begun_; ++done_) {
                int flag = 0;
                check(MPI_Test(&requests_[done_ % most], &flag, MPI_STATUS_IGNORE), "reduction", end_.rank());
                if (flag == 0) break;
                window.moved = true;
            }
            for (; begun_ < chunks && begun_ - done_ < std::min(window.depth, most); ++begun_) {
                check(gathered ? begin_chunk(&requests_[begun_ % most]) : begin_scatter(&requests_[0]), "reduction", end_.rank());
                window.moved = true;
            }
        }
        window.in_flight = begun_ < chunks ? window.depth : begun_ - done_;  // nobody begins before all of its chunks have
        if (done_ != chunks) return false;
        busy_ = false;
        if (gathered) return true;
        for (std::size_t i = 0; i < out_.size(); ++i) out_[i] = add_ ? out_[i] + scratch_[i] : scratch_[i];
        return true;
    }
    bool advance() {
        Window window;
        return advance(window);
    }
    void wait() { wait_until_over(*this, end_, "reduction"); }

    /// MPI takes back no collective that has begun: it is forgotten.
    void abandon() noexcept {
        if (busy_) end_.retire();
        busy_ = false;
    }

private:
    static constexpr std::size_t most = 8;  // chunks that MPI has at once

    std::size_t mine() const noexcept { return static_cast<std::size_t>(counts_[static_cast<std::size_t>(end_.rank())]); }
    std::size_t chunk() const noexcept { return std::max<std::size_t>(1, end_.chunk_bytes() / sizeof(T)); }

    int begin_chunk(MPI_Request* request) {
        auto const part = data_.subspan(begun_ * chunk(), std::min(chunk(), data_.size() - begun_ * chunk()));
        return MPI_Iallreduce(MPI_IN_PLACE, part.data(), static_cast<int>(part.size()), datatype<T>(), MPI_SUM, end_.handle(), request);
    }
    int begin_scatter(MPI_Request* request) {
        return MPI_Ireduce_scatter(data_.data(), scratch_, counts_.data(), datatype<T>(), MPI_SUM, end_.handle(), request);
    }

    void take(VendorReduction& other) noexcept {
        end_      = other.end_;
        counts_   = other.counts_;
        whole_    = other.whole_;
        data_     = other.data_;
        out_      = other.out_;
        scratch_  = other.scratch_;
        add_      = other.add_;
        result_   = other.result_;
        requests_ = other.requests_;
        begun_    = other.begun_;
        done_     = other.done_;
        busy_     = std::exchange(other.busy_, false);
    }

    Endpoint         end_;
    std::vector<int> counts_;  // elements of each part
    Range            whole_;

    std::span<T>                  data_, out_;
    T*                            scratch_ = nullptr;
    bool                          add_     = false;
    Result                        result_  = Result::gathered;
    std::array<MPI_Request, most> requests_{};
    std::size_t                   begun_ = 0, done_ = 0;  // chunks
    bool                          busy_ = false;
};

}  // namespace lockstep::comm
