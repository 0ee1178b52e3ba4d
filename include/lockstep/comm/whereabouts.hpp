#pragma once
// Where a rank is in its work: what it tells the others while all goes well, so that they can say it when it no longer answers.

#include <array>
#include <atomic>
#include <cstdint>
#include <ostream>
#include <type_traits>
#include <utility>

#include "lockstep/comm/task.hpp"
#include "lockstep/observe/track.hpp"

namespace lockstep::comm {

/// What a rank has issued to its engine.
struct IssuedOperation {
    std::uint64_t bytes      = 0;  // that the rank sends
    std::uint32_t index      = 0;  // of the unit or bucket
    std::uint16_t part       = 0;
    std::uint8_t  collective = 0;
    std::uint8_t  padding    = 0;

    bool same(IssuedOperation const& other) const noexcept {
        return index == other.index && part == other.part && collective == other.collective;
    }
};
inline std::ostream& operator<<(std::ostream& out, IssuedOperation const& operation) {
    auto const collective = static_cast<Collective>(operation.collective);
    return out << Subject{.collective = collective,
                          .of         = collective == Collective::sum          ? "counts"
                                        : collective == Collective::all_gather ? "unit"
                                                                               : "bucket",
                          .index      = operation.index,
                          .part       = operation.part,
                          .bytes      = operation.bytes};
}

struct Whereabouts {
    static constexpr std::size_t remembered = 8;

    std::uint64_t                           issued = 0;  // collectives of the engine
    std::array<IssuedOperation, remembered> last{};      // number n is last[n % remembered]
    std::uint64_t                           version     = 0;
    observe::Nanoseconds                    for_as_long = 0;  // as it has been in its span
    std::uint32_t                           index = 0, phase_index = 0;
    std::uint8_t                            event = 0, phase = 0;
    std::uint16_t                           in_span    = 0;
    std::uint32_t                           engine     = 0;  // the how manieth of the rank; 0: it has none yet
    std::uint64_t                           agreements = 0;  // collectives of all ranks without an engine

    /// Numbers count within one engine: ranks at different ones, of two trainers, cannot be compared.
    bool same_engine(Whereabouts const& other) const noexcept { return engine == other.engine; }
    bool has_issued(std::uint64_t number) const noexcept { return number <= issued; }
    bool remembers(std::uint64_t number) const noexcept {  // the oldest place may just be written anew
        return number != 0 && has_issued(number) && number + remembered > issued + 1;
    }
    /// It waits in a collective without an engine, or for a message.
    bool agrees() const noexcept { return in_span != 0 && static_cast<observe::Event>(event) == observe::Event::agreement; }
    IssuedOperation const& operation(std::uint64_t number) const noexcept { return last[number % remembered]; }

    void set(observe::Doing const& doing, observe::Nanoseconds now) noexcept {
        version     = doing.version;
        event       = static_cast<std::uint8_t>(doing.event);
        index       = doing.index;
        phase       = static_cast<std::uint8_t>(doing.phase);
        phase_index = doing.phase_index;
        in_span     = doing.open;
        for_as_long = doing.open ? now - doing.since : 0;
    }
};
static_assert(std::is_trivially_copyable_v<Whereabouts>);  // it travels as bytes

/// "in backward of unit 3 for 0.2 s, version 17", "in AllGather wait for unit 4 for 5 s (behind forward of unit 3), version 17".
inline std::ostream& operator<<(std::ostream& out, Whereabouts const& where) {
    auto const of = [&](std::uint8_t event, std::uint32_t index) {
        auto const e = static_cast<observe::Event>(event);
        out << observe::name(e);
        if (e == observe::Event::forward || e == observe::Event::backward || e == observe::Event::acquire) out << " of unit " << index;
        if (e == observe::Event::gather_wait) out << " for unit " << index;
        if (e == observe::Event::reduction_wait) out << " for bucket " << index;
    };
    if (where.engine == 0) return out << "before its first step";
    if (where.in_span == 0) return out << "between two steps, version " << where.version;
    out << "in ";
    of(where.event, where.index);
    out << " for " << static_cast<double>(where.for_as_long / 100'000'000) / 10 << " s";
    if (where.phase != where.event && where.phase != static_cast<std::uint8_t>(observe::Event::step)) {
        out << " (behind ";
        of(where.phase, where.phase_index);
        out << ')';
    }
    return out << ", version " << where.version;
}

/// Of one engine, written by the thread that issues and the one that finishes, read by any.
class IssueLog {
public:
    void issued(std::uint64_t number, Subject const& subject) noexcept {
        auto& entry = last_[number % Whereabouts::remembered];
        entry[0].store(subject.bytes, std::memory_order_relaxed);
        entry[1].store(subject.index | std::uint64_t{subject.part & 0xFFFF} << 32 | static_cast<std::uint64_t>(subject.collective) << 48,
                       std::memory_order_relaxed);
        issued_.store(number, std::memory_order_release);
        current_.store(this, std::memory_order_release);
    }
    void issuer(observe::Track const& track) noexcept { issuer_.store(&track, std::memory_order_release); }

    Whereabouts read(observe::Nanoseconds now) const noexcept {
        Whereabouts where;
        where.engine = engine_;
        do {
            where.issued = issued_.load(std::memory_order_acquire);
            read_last(where);
        } while (where.issued != issued_.load(std::memory_order_relaxed));
        if (observe::Track const* const track = issuer_.load(std::memory_order_acquire)) where.set(track->doing(), now);
        return where;
    }

    /// The log of the engine that issued something last, of those that live. Its callers hold the turn to call MPI, as those of the next.
    static IssueLog const* current() noexcept { return current_.load(std::memory_order_acquire); }
    void                   enter() noexcept {
                          engine_ = ++engines_;
                          before_ = std::exchange(newest_, this);
                          current_.store(this, std::memory_order_release);
    }
    void leave() noexcept {
        IssueLog** link = &newest_;
        while (*link != this) link = &(*link)->before_;
        *link                = before_;
        IssueLog const* mine = this;
        current_.compare_exchange_strong(mine, newest_);
    }

private:
    void read_last(Whereabouts& where) const noexcept {
        for (std::size_t i = 0; i < Whereabouts::remembered; ++i) {
            std::uint64_t const what = last_[i][1].load(std::memory_order_acquire);  // before `issued_` is looked at again
            where.last[i]            = {.bytes      = last_[i][0].load(std::memory_order_acquire),
                                        .index      = static_cast<std::uint32_t>(what),
                                        .part       = static_cast<std::uint16_t>(what >> 32),
                                        .collective = static_cast<std::uint8_t>(what >> 48)};
        }
    }

    std::array<std::array<std::atomic<std::uint64_t>, 2>, Whereabouts::remembered> last_{};
    std::atomic<std::uint64_t>                                                     issued_{0};
    std::atomic<observe::Track const*>                                             issuer_{nullptr};
    IssueLog*                                                                      before_ = nullptr;
    std::uint32_t                                                                  engine_ = 0;

    inline static IssueLog*                    newest_  = nullptr;
    inline static std::uint32_t                engines_ = 0;
    inline static std::atomic<IssueLog const*> current_{nullptr};
};

}  // namespace lockstep::comm
