#pragma once
// Waiting that leaves the core to others: ranks may outnumber cores.

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <thread>

#include "lockstep/comm/turn.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::comm {

/// Which one of a rank's collectives: each engine counts those it was given, the process those of all ranks that no engine carries.
/// A wait for something else has no number.
struct CollectiveNumber {
    std::uint64_t operation = 0;  // of the engine, from 1
    std::uint64_t agreement = 0;  // without one, from 1

    friend std::ostream& operator<<(std::ostream& out, CollectiveNumber const& number) {
        if (number.operation != 0) out << ", operation " << number.operation << " of this rank";
        if (number.agreement != 0) out << ", agreement " << number.agreement << " of this rank";
        return out;
    }
};

/// What this process knows of the other ranks, and they of it. One a process; empty where there is no environment with several ranks.
struct OtherRanks {
    using Time = std::chrono::steady_clock::time_point;

    /// What is called holds the turn to call MPI.
    struct Verbs {
        void (*attend)(void* object)                                                               = nullptr;
        void (*check)(void* object, Time since)                                                    = nullptr;
        bool (*one_has_failed)(void* object)                                                       = nullptr;
        std::string (*give_up)(void* object, std::string const& sentence, CollectiveNumber number) = nullptr;
    };
    void* object = nullptr;
    Verbs verbs;
    bool  reported = false;  // this rank has said that it has waited too long

    bool known() const noexcept { return object != nullptr; }

    /// Hears them and lets them hear; to be called about once a `period`.
    void attend() const {
        if (!known()) return;
        Turn const turn;
        verbs.attend(object);
    }
    /// Raises an error where a wait that began at `since` would never end. Attends too.
    void check(Time since) const {
        if (!known()) return;
        Turn const turn;
        verbs.check(object, since);
    }
    /// The report of a wait that took too long: the sentence, who is missing in the collective of that number, and a line for each rank.
    /// When this rank ends, the others learn that it has given up. Where another one has failed, that one is about to say why and to end
    /// the job: it gets the time for it.
    std::string give_up(std::string const& sentence, CollectiveNumber number) const {
        if (!known()) return sentence + ", " + somebody_is_missing;
        if (one_has_failed()) std::this_thread::sleep_for(std::chrono::seconds(3));
        Turn const turn;
        return verbs.give_up(object, sentence, number);
    }

    static constexpr std::chrono::milliseconds period{100};
    static constexpr char const*               somebody_is_missing = "which another rank has not joined or not ended";

private:
    bool one_has_failed() const {
        Turn const turn;
        return verbs.one_has_failed(object);
    }
};
inline OtherRanks other_ranks;

/// Pauses between two tests of something that another rank will finish: first not at all, then it yields, then it also sleeps.
/// MPI moves data only while it is called, so even a long wait sleeps after every few tests only. Raises what `other_ranks` raises.
class Backoff {
public:
    void pause() {
        ++pauses_;
        if (pauses_ <= spins) return;
        if (pauses_ <= yields || pauses_ % tests_per_sleep != 0) return std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        if (pauses_ % tests_per_check == 0) other_ranks.check(since_);
    }

private:
    static constexpr unsigned spins           = 8;
    static constexpr unsigned yields          = 4096;
    static constexpr unsigned tests_per_sleep = 8;
    static constexpr unsigned tests_per_check = 512;  // some milliseconds

    unsigned         pauses_ = 0;
    OtherRanks::Time since_  = std::chrono::steady_clock::now();
};

/// How long a wait may take, seconds.
inline constexpr double default_timeout = 300;

/// The end of a wait.
class Deadline {
public:
    /// `reports`: when it has passed, the error says what is known of the other ranks, and they learn of it.
    explicit Deadline(double seconds, bool reports = true) : seconds_(seconds), reports_(reports) {}

    /// To be asked again and again. Time in which the process did not run does not count: where a whole job is suspended, as by
    /// `scontrol suspend` or Ctrl-Z, no rank keeps the others waiting.
    bool passed() {
        auto const now = Clock::now();
        if (now - asked_ > std::chrono::seconds(1)) begin_ += now - asked_;
        asked_ = now;
        return now - begin_ > std::chrono::duration<double>(seconds_);
    }
    auto begin() const noexcept { return begin_; }

    /// The peer error of a wait that was too long: which rank waited for what, and what it knows of the others.
    template <class What>
    [[noreturn]] void raise(std::size_t rank, What const& what, CollectiveNumber number = {}) const {
        std::string const all = sentence("rank ", rank, ": waited ", seconds_, " s for ", what, number);
        throw Error(Fault::peer, reports_ ? other_ranks.give_up(all, number) : all + ", " + OtherRanks::somebody_is_missing);
    }

private:
    using Clock = std::chrono::steady_clock;

    double            seconds_;
    bool              reports_;
    Clock::time_point begin_ = Clock::now(), asked_ = begin_;
};

}  // namespace lockstep::comm
