#pragma once
// Checkpoints that are written while training goes on: a step is held up by a copy of the state, the rest is done by a thread of each rank.
// These threads make no call to MPI: what they did is agreed on later, between two steps.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/core/escape.hpp"
#include "lockstep/core/thread.hpp"
#include "lockstep/io/checkpoint_folder.hpp"
#include "lockstep/io/checkpoint_writer.hpp"
#include "lockstep/state/version.hpp"
#include "lockstep/tensor/booked_memory.hpp"
#include "lockstep/train/agreement.hpp"
#include "lockstep/train/checkpoint_state.hpp"
#include "lockstep/train/stored_state.hpp"

namespace lockstep {

struct CheckpointOptions {
    std::filesystem::path directory;
    std::size_t           keep = 0;  // of this run's the newest that stay; 0: all
    std::string           run{};     // that is continued, as `resume` returns it; empty: a new one
};

/// How a save ended, the same on all ranks.
struct SaveResult {
    state::Version        version = 0;
    std::filesystem::path place;      // of the checkpoint, where it is complete
    std::string           failure{};  // why it is not; empty where it is
    std::string           remains{};  // on rank 0: what old one could not be removed, and why
};

/// A save that fails leaves nothing behind, costs no step, and leaves earlier checkpoints as they are.
template <class Trainer>
class Checkpoints {
public:
    /// A directory that cannot be made, or that another run saves to, is an error of all ranks. Of the checkpoints in it those of the run
    /// that is continued, up to the version of the trainer, are its own. Collective.
    Checkpoints(Trainer& trainer, CheckpointOptions options) : trainer_(trainer), options_(std::move(options)) {
        on_first_rank_at_length(ranks(), [&] {
            bool goes_back = false;
            folder_.emplace(options_.directory, [&](std::uint64_t version, std::filesystem::path const& checkpoint) {
                if (options_.run.empty() || io::run_of(checkpoint) != options_.run) return false;
                goes_back = goes_back || version > trainer_.version();
                return version <= trainer_.version();
            });
            if (options_.run.empty() || goes_back) options_.run = new_run();  // what it leaves behind stays, also when it has come past it
        });
        parts_            = stored_parts(trainer_);
        pieces_           = pieces_of(parts_);
        std::size_t bytes = 0;
        for (io::CheckpointPiece const& piece : pieces_) bytes = std::max(bytes, piece.offset + piece.bytes());
        copy_ = {bytes, observe::Category::scratch};
        copy();  // takes the memory now, so that the first save holds up its step no longer than the others
    }
    Checkpoints(Checkpoints const&)            = delete;
    Checkpoints& operator=(Checkpoints const&) = delete;
    /// A save that is under way is lost, which rank 0 says: see `finish`.
    ~Checkpoints() {
        thread_ = {};
        if (!folder_ || state_ == State::idle) return;
        folder_->discard(facts_.version);
        if (std::uncaught_exceptions() != 0) return;  // then something else is told
        std::fprintf(stderr, "%s: version %llu is not saved: the program did not wait for it\n",
                     escaped(options_.directory.string()).c_str(), static_cast<unsigned long long>(facts_.version));
    }

    bool saving() const noexcept { return state_ != State::idle; }

    /// On rank 0: versions in the directory that this run does not continue, ascending. They stay until it saves the same ones.
    std::vector<std::uint64_t> strange() const { return folder_ ? folder_->strange() : std::vector<std::uint64_t>(); }

    /// Copies the state and begins to write it. Returns how an earlier save ended that was still under way: it is waited for, so a program
    /// that must not wait asks `saving` first. Only files and threads fail a save; where the ranks do not reach each other, that is an
    /// error as in a step. Collective, between two steps.
    std::optional<SaveResult> save(io::CheckpointFacts facts) {
        auto earlier = finish();
        facts_       = std::move(facts);
        facts_.run   = options_.run;
        state_       = State::writing;
        failure_     = agreed(detail::at_length(ranks(), folder_.has_value(), [&] { folder_->begin(facts_.version); }), false);
        if (!failure_.sentence.empty()) return earlier;
        copy();
        start([this, number = static_cast<std::size_t>(ranks().rank()), count = trainer_.ranks()](std::stop_token const& stop) {
            io::write_checkpoint_shard(directory(), number, count, pieces_, {copy_.data(), copy_.size()}, stop);
        });
        return earlier;
    }
    std::optional<SaveResult> save(io::RunPosition position = {}) {
        auto facts     = checkpoint_facts(trainer_);
        facts.position = position;
        return save(std::move(facts));
    }

    /// Says how the save that is under way ended, once it has on all ranks. Collective while `saving()`, between two steps.
    std::optional<SaveResult> advance() {
        if (state_ == State::idle) return std::nullopt;
        for (std::uint64_t const done : ranks().gather_values(done_.load() ? 1 : 0))
            if (done == 0) return std::nullopt;
        thread_ = {};
        if (state_ != State::discarding) lost_ = agreed(failure_, true).sentence;
        State const ended = std::exchange(state_, State::idle);
        if (lost_.empty() && ended == State::writing) {
            state_ = State::publishing;
            if (ranks().rank() == 0)
                start([this, count = trainer_.ranks()](std::stop_token const&) {
                    io::write_checkpoint_index(directory(), count, facts_);
                    remains_ = folder_->publish(facts_.version, options_.keep);
                });
            return std::nullopt;
        }
        if (!lost_.empty() && ended != State::discarding) {
            state_ = State::discarding;
            if (ranks().rank() == 0) start([this](std::stop_token const&) { folder_->discard(facts_.version); });
            return std::nullopt;
        }
        SaveResult result{facts_.version, {}, std::exchange(lost_, {}), std::exchange(remains_, {})};
        if (result.failure.empty()) result.place = options_.directory / io::detail::checkpoint_name(facts_.version);
        return result;
    }

    /// Waits until nothing is under way. Collective.
    std::optional<SaveResult> finish() {
        std::optional<SaveResult> result;
        while (saving() && !(result = advance())) meet_until(ranks(), [&] { return done_.load(); });
        return result;
    }

private:
    enum class State { idle, writing, publishing, discarding };

    decltype(auto) ranks() { return trainer_.strategy(); }

    void copy() {
        trainer_.threads().run([&] { copy_state(parts_, pieces_, {copy_.data(), copy_.size()}); });
    }

    std::filesystem::path directory() const { return io::CheckpointFolder::unfinished(options_.directory, facts_.version); }

    /// A name that no other run has.
    static std::string new_run() {
        std::random_device random;
        return io::detail::hexadecimal(std::uint64_t{random()} << 32 ^ random());
    }

    /// The first failure of a rank's own work, on all ranks. An error of the exchange itself goes on up. Collective.
    Failure agreed(Failure own, bool is_shared) {
        own.fault = Fault::input;  // of files, also where std::filesystem raised it: no other rank took part
        try {
            share_failure(ranks(), own, is_shared);
            return {};
        } catch (Error const& error) {
            if (error.fault() != Fault::input) throw;
            return {error.fault(), error.what()};
        }
    }

    template <class Body>
    void start(Body body) {
        done_ = false;
        try {
            thread_ = start_thread<std::jthread>("to write the checkpoint", [this, body = std::move(body)](std::stop_token const& stop) {
                failure_ = Failure::of([&] { body(stop); });
                done_    = true;
            });
        } catch (Error const& error) {
            failure_ = {error.fault(), error.what()};
            done_    = true;
        }
    }

    Trainer&                            trainer_;
    CheckpointOptions                   options_;
    std::optional<io::CheckpointFolder> folder_;  // on rank 0
    std::vector<StoredPart>             parts_;
    std::vector<io::CheckpointPiece>    pieces_;
    tensor::BookedBlock                 copy_;
    io::CheckpointFacts                 facts_;  // of the save that is under way
    State                               state_ = State::idle;
    Failure                             failure_;  // of this rank's thread
    std::string                         lost_;     // why the save is not complete, on all ranks
    std::string                         remains_;
    std::atomic<bool>                   done_{true};
    std::jthread                        thread_;  // last: stopped and joined before what it uses goes
};

}  // namespace lockstep
