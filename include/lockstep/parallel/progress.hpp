#pragma once
// Who carries collectives forward, and the tasks that strategies hand to it.

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "lockstep/comm/progress_engine.hpp"
#include "lockstep/parallel/communicator.hpp"
#include "lockstep/parallel/strategy.hpp"  // Options
#include "lockstep/runtime/cores.hpp"

namespace lockstep::parallel {

/// A thread of its own where ranks have two cores or more, or one each and talk over a network: there little moves without it. Ranks of one
/// node that have a core each make progress inside: memory is fast, and a second thread takes more from compute than it hides. So do ranks
/// that outnumber cores, and one alone. Collective, whatever is wanted: all ranks choose alike. `bench/overlap` measures it.
template <class C>
comm::Progress choose_progress(C const& ranks, comm::Progress wanted) {
    int const                   here = ranks_on_node(ranks), cores = runtime::available_cores();
    bool const                  network = static_cast<std::size_t>(here) < static_cast<std::size_t>(ranks.size());
    std::array<std::int64_t, 1> roomy{cores >= (network ? here : 2 * here)};
    ranks.start_sum(roomy).wait();
    if (wanted != comm::Progress::automatic) return wanted;
    return ranks.size() > 1 && roomy[0] == static_cast<std::int64_t>(ranks.size()) ? comm::Progress::thread : comm::Progress::inside;
}

/// Collective.
template <class C>
comm::ProgressEngine::Settings engine_settings(C const& ranks, Options const& options) {
    return {.policy = choose_progress(ranks, options.progress), .rank = static_cast<std::size_t>(ranks.rank()), .timeout = options.timeout};
}

/// Bytes of a message that MPI gets at once: few for a thread, which comes back for the next ones soon; many where that takes a kernel.
constexpr std::size_t chunk_bytes(Options const& options, comm::Progress policy) noexcept {
    if (options.chunk_bytes != 0) return options.chunk_bytes;
    return policy == comm::Progress::thread ? std::size_t{64} << 10 : std::size_t{4} << 20;
}

/// A duplicate with the limits of the options, where the communicator has any. Collective.
template <class C>
C duplicate_with(C const& ranks, Options const& options, comm::Progress policy) {
    C copy = ranks.duplicate();
    if constexpr (requires { copy.with_chunk_bytes(1).with_timeout(1.0); })
        return copy.with_chunk_bytes(chunk_bytes(options, policy)).with_timeout(options.timeout);
    else
        return copy;
}

/// The last member of what tasks work on: none is left when the others are destroyed.
template <class Engine>
struct Settled {
    Engine& engine;
    ~Settled() { engine.settle(); }
};

/// An AllGather that an engine carries forward. `Gather` is an operation of a communicator.
template <class Gather, class T, class Engine>
class GatherTask : public comm::Task {
public:
    GatherTask(Engine& engine, Gather gather, comm::Subject const& subject)
        : Task(&step, &forget, comm::Urgency::parameters, subject), engine_(&engine), gather_(std::move(gather)) {}

    void start(std::span<T> buffer) {
        gather_.prepare(buffer);
        engine_->issue(*this);
    }
    void wait() { engine_->wait(*this); }

private:
    static bool step(comm::Task& task, comm::Window& window) { return static_cast<GatherTask&>(task).gather_.advance(window); }
    static void forget(comm::Task& task) noexcept { static_cast<GatherTask&>(task).gather_.abandon(); }

    Engine* engine_;
    Gather  gather_;
};

/// Sums of integers that an engine carries forward, a few at once.
template <class C>
class Sums {
    using Engine  = typename C::Engine;
    using Request = decltype(std::declval<C const&>().start_sum(std::span<std::int64_t>{}));

    class Sum : public comm::Task {
    public:
        Sum() : Task(&step, &forget, comm::Urgency::sums, {}) {}
        C const*                ranks = nullptr;
        std::span<std::int64_t> words;

    private:
        friend class Sums;

        static bool step(comm::Task& task, comm::Window& window) {
            Sum& sum = static_cast<Sum&>(task);
            if (!std::exchange(sum.begun_, true)) {
                sum.request_ = sum.ranks->start_sum(sum.words);
                window.moved = true;
            }
            return sum.request_.advance();
        }
        static void forget(comm::Task& task) noexcept {
            if constexpr (requires(Request & request) { request.abandon(); }) static_cast<Sum&>(task).request_.abandon();
        }

        bool    begun_ = false;
        Request request_;
    };

public:
    /// A sum that has been started; its destructor waits.
    class [[nodiscard]] Pending {
    public:
        Pending(Engine& engine, Sum& sum) noexcept : engine_(&engine), sum_(&sum) {}
        Pending(Pending&& other) noexcept : engine_(other.engine_), sum_(std::exchange(other.sum_, nullptr)) {}
        Pending& operator=(Pending&&) = delete;
        ~Pending() {
            if (sum_ != nullptr && !sum_->idle()) engine_->settle();
        }
        void wait() { engine_->wait(*std::exchange(sum_, nullptr)); }

    private:
        Engine* engine_;
        Sum*    sum_;
    };

    Sums(Engine& engine, C ranks) : engine_(&engine), ranks_(std::move(ranks)) {}

    C const& ranks() const noexcept { return ranks_; }

    /// The words become those of all ranks; they must stay until it is over.
    Pending start(std::span<std::int64_t> words) {
        Sum& sum = sums_[next_++ % sums_.size()];
        engine_->wait(sum);
        sum.ranks  = &ranks_;
        sum.words  = words;
        sum.begun_ = false;
        engine_->issue(sum);
        engine_->advance();
        return {*engine_, sum};
    }

private:
    Engine*            engine_;
    C                  ranks_;
    std::array<Sum, 4> sums_;
    std::size_t        next_ = 0;
};

}  // namespace lockstep::parallel
