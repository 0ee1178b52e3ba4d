#pragma once
// The door to MPI: its C interface, errors as exceptions, types of elements.

#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#endif
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX
#endif
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ranges>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>

#include "lockstep/comm/wire.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

/// Turns the return code of an MPI call into a peer error that names the operation and the rank.
inline void check(int code, std::string_view operation, int rank) {
    if (code == MPI_SUCCESS) [[likely]]
        return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int  length                     = 0;
    MPI_Error_string(code, text, &length);
    peer_error("rank ", rank, ": ", operation, " failed: ", std::string_view(text, static_cast<std::size_t>(length)));
}

/// Standard output and standard error lead nowhere while it lives: MPI and what is below it write to both.
class Silence {
public:
    Silence() noexcept {
        std::fflush(nullptr);
        int const nowhere = ::open("/dev/null", O_WRONLY);
        for (int stream : {STDOUT_FILENO, STDERR_FILENO}) {
            kept_[stream - STDOUT_FILENO] = ::dup(stream);
            if (nowhere >= 0) ::dup2(nowhere, stream);
        }
        if (nowhere >= 0) ::close(nowhere);
    }
    Silence(Silence const&)            = delete;
    Silence& operator=(Silence const&) = delete;
    ~Silence() {
        for (int stream : {STDOUT_FILENO, STDERR_FILENO})
            if (int const kept = kept_[stream - STDOUT_FILENO]; kept >= 0) {
                ::dup2(kept, stream);
                ::close(kept);
            }
    }

private:
    int kept_[2] = {-1, -1};
};

/// Ends all ranks at once. Whoever calls it has said why: MPI's own line is not let through, which names no reason.
/// MPI_Abort asks the launcher and waits for its answer, which does not come over a link that is dead: then this rank ends alone.
[[noreturn]] inline void abort_job(int code) {
    Silence const silence;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // mpiexec forwards what was said before it kills those that forward
    try {
        std::thread([code] {
            std::this_thread::sleep_for(std::chrono::seconds(1));
            std::_Exit(code);
        }).detach();
    } catch (std::system_error const&) {  // then the launcher is waited for
    }
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
}

/// Elements that may travel: as raw bytes, bfloat16 and float16 included.
template <class T>
concept movable_element = std::is_trivially_copyable_v<T>;

/// Elements that MPI may combine. Narrow floats are not among them: MPI would round at every hop.
template <class T>
concept combinable_element = (std::integral<T> && !std::same_as<T, bool>) || std::same_as<T, float> || std::same_as<T, double>;

/// A span, vector or array of such elements.
template <class R>
concept movable_data = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && movable_element<std::ranges::range_value_t<R>>;
template <class R>
concept movable_target = movable_data<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
template <class R>
concept combinable_data = movable_data<R> && combinable_element<std::ranges::range_value_t<R>>;
template <class R>
concept combinable_target = movable_target<R> && combinable_data<R>;

/// A place for the elements of S.
template <class R, class S>
concept movable_target_for = movable_target<R> && std::same_as<std::ranges::range_value_t<R>, std::ranges::range_value_t<S>>;
template <class R, class S>
concept combinable_target_for = combinable_data<R> && movable_target_for<R, S>;

template <movable_data R>
std::span<std::byte const> bytes_of(R const& data) noexcept {
    return std::as_bytes(std::span<std::ranges::range_value_t<R> const>(data));
}
template <movable_target R>
std::span<std::byte> writable_bytes_of(R&& data) noexcept {
    return std::as_writable_bytes(std::span<std::ranges::range_value_t<R>>(data));
}

template <combinable_element T>
MPI_Datatype datatype() noexcept {
    if constexpr (std::same_as<T, float>)
        return MPI_FLOAT;
    else if constexpr (std::same_as<T, double>)
        return MPI_DOUBLE;
    else if constexpr (std::signed_integral<T>)
        return sizeof(T) == 1 ? MPI_INT8_T : sizeof(T) == 2 ? MPI_INT16_T : sizeof(T) == 4 ? MPI_INT32_T : MPI_INT64_T;
    else
        return sizeof(T) == 1 ? MPI_UINT8_T : sizeof(T) == 2 ? MPI_UINT16_T : sizeof(T) == 4 ? MPI_UINT32_T : MPI_UINT64_T;
}

inline MPI_Op operation(Combine combine) noexcept {
    return combine == Combine::sum ? MPI_SUM : combine == Combine::max ? MPI_MAX : MPI_MIN;
}

}  // namespace lockstep::comm
