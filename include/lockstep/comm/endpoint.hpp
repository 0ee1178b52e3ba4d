#pragma once
// One rank's end of an MPI communicator, shared by everything that talks through it.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lockstep/comm/backoff.hpp"  // default_timeout
#include "lockstep/comm/mpi.hpp"
#include "lockstep/comm/turn.hpp"

namespace lockstep::comm {

/// Copies share the MPI communicator; the last one frees it, unless MPI has already been finalised.
class Endpoint {
public:
    /// Takes over an MPI communicator. Its errors become return codes, hence exceptions.
    static Endpoint adopt(MPI_Comm communicator) {
        Endpoint end;
        end.handle_ = std::make_shared<Handle>(communicator);
        MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
        MPI_Comm_rank(communicator, &end.rank_);
        MPI_Comm_size(communicator, &end.size_);
        int likeness = MPI_UNEQUAL;
        MPI_Comm_compare(communicator, MPI_COMM_WORLD, &likeness);
        end.has_all_ranks_ = likeness != MPI_UNEQUAL;
        return end;
    }

    MPI_Comm handle() const noexcept { return handle_->value; }
    int      rank() const noexcept { return rank_; }
    int      size() const noexcept { return size_; }

    /// No MPI call moves or combines more bytes than this. It must be the same on all ranks.
    std::size_t chunk_bytes() const noexcept { return chunk_bytes_; }
    void        set_chunk_bytes(std::size_t bytes) noexcept { chunk_bytes_ = std::clamp<std::size_t>(bytes, 1, largest_chunk); }

    std::size_t chunks(std::size_t bytes) const noexcept { return (bytes + chunk_bytes_ - 1) / chunk_bytes_; }

    /// How long a wait for one of its operations may take, seconds.
    double timeout() const noexcept { return timeout_; }
    void   set_timeout(double seconds) noexcept { timeout_ = seconds; }

    /// The number of a collective that begins, of those that no engine carries: the same on all ranks, since all begin the same ones.
    /// 0 where not all ranks of the program take part.
    std::uint64_t        next_agreement() const noexcept { return has_all_ranks_ && size_ > 1 ? ++agreements_ : 0; }
    static std::uint64_t agreements() noexcept { return agreements_; }

    /// An operation of it was abandoned: its messages may still arrive. The communicator is never freed, so that MPI gives its number to
    /// no other one, which would take them for its own.
    void retire() const noexcept { handle_->retired = true; }

    // Tags: point to point may use [0, first_reserved_tag); MPI guarantees tags up to 32767.
    static constexpr int first_reserved_tag = 16384;
    static constexpr int channels           = 4096;
    enum class Use { scatter, gather, all_gather };
    static constexpr int tag(int channel, Use use) noexcept { return first_reserved_tag + 1 + 3 * channel + static_cast<int>(use); }

private:
    struct Handle {
        explicit Handle(MPI_Comm communicator) noexcept : value(communicator) {}
        Handle(Handle const&)            = delete;
        Handle& operator=(Handle const&) = delete;
        ~Handle() {
            Turn const turn;
            int        finalized = 0;
            MPI_Finalized(&finalized);
            if (!finalized && !retired) MPI_Comm_free(&value);
        }
        MPI_Comm                  value;
        mutable std::atomic<bool> retired{false};
    };

    static constexpr std::size_t largest_chunk = std::size_t{1} << 30;

    std::shared_ptr<Handle const> handle_;
    int                           rank_          = 0;
    int                           size_          = 1;
    bool                          has_all_ranks_ = false;  // of the program
    std::size_t                   chunk_bytes_   = largest_chunk;
    double                        timeout_       = default_timeout;

    inline static std::atomic<std::uint64_t> agreements_{0};
};
static_assert(Endpoint::tag(Endpoint::channels - 1, Endpoint::Use::all_gather) <= 32767);

}  // namespace lockstep::comm
