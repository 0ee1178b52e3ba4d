#pragma once
// A communicator of one rank that knows no MPI: strategies are templates over what they are given.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/comm/progress_engine.hpp"
#include "lockstep/comm/wire.hpp"
#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/state/unit.hpp"

struct LoneCommunicator {
    using Engine = lockstep::comm::ProgressEngine;

    struct Pending {
        bool advance() { return true; }
        void wait() {}
    };

    template <class T>
    struct Reduction {
        lockstep::comm::Wire wire = lockstep::comm::Wire::fp32;

        std::size_t scratch_bytes() const { return 0; }
        void        prepare(std::span<T> buffer, std::span<T> mine, bool add, lockstep::comm::Result result, std::span<std::byte>) {
                   if (wire == lockstep::comm::Wire::bf16)
                for (T& value : buffer)
                    value = static_cast<T>(static_cast<float>(lockstep::precision::bfloat16(static_cast<float>(value))));
            if (result == lockstep::comm::Result::gathered) return;
            for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = add ? mine[i] + buffer[i] : buffer[i];
        }
        bool advance(lockstep::comm::Window&) { return true; }
        void wait() {}
        void abandon() noexcept {}
    };

    template <class T>
    struct Gather {
        void prepare(std::span<T>) {}
        void start(std::span<T>) {}
        bool advance(lockstep::comm::Window&) { return true; }
        void wait() {}
        void abandon() noexcept {}
    };

    std::size_t      rank() const { return 0; }
    std::size_t      size() const { return 1; }
    LoneCommunicator duplicate() const { return {}; }
    LoneCommunicator split(int, int) const { return {}; }
    template <class T>
    Reduction<T> reduction(std::vector<lockstep::Range> const&, lockstep::comm::Wire wire, lockstep::comm::Reduction, int) const {
        return {wire};
    }
    template <class T>
    Gather<T> all_gather(std::vector<lockstep::Range> const&, int, lockstep::comm::Reduction = lockstep::comm::Reduction::ordered) const {
        return {};
    }
    Pending                    start_sum(std::span<std::int64_t>) const { return {}; }
    std::vector<std::uint64_t> gather_values(std::uint64_t value) const { return {value}; }
};
