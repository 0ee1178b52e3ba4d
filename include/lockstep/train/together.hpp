#pragma once
// What may go wrong on one rank alone: all ranks hear of it and end alike, where otherwise the others would wait for that one.
//
// `Ranks` is whatever shows a word of each rank to all: a communicator, or a strategy at work.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "lockstep/core/error.hpp"

namespace lockstep {

template <class R>
concept shows_words = requires(R& ranks) {
    { ranks.gather_values(std::uint64_t{}) } -> std::same_as<std::vector<std::uint64_t>>;
};

/// The text of one rank, on all of them. Collective.
template <shows_words Ranks>
std::string text_of_rank(Ranks& ranks, std::size_t rank, std::string_view mine) {
    std::string text(ranks.gather_values(mine.size())[rank], '\0');
    for (std::size_t begin = 0; begin < text.size(); begin += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        if (begin < mine.size()) std::memcpy(&word, mine.data() + begin, std::min(sizeof word, mine.size() - begin));
        word = ranks.gather_values(word)[rank];
        std::memcpy(text.data() + begin, &word, std::min(sizeof word, text.size() - begin));
    }
    return text;
}

/// How work went on this rank: empty where it went well.
struct Failure {
    Fault       fault = Fault::input;
    std::string sentence{};

    template <class Body>
    static Failure of(Body&& body) {
        try {
            body();
            return {};
        } catch (Error const& error) {
            return {error.fault(), said(error)};
        } catch (std::exception const& error) {
            return {Fault::peer, said(error)};
        }
    }

private:
    static std::string said(std::exception const& error) { return *error.what() != '\0' ? error.what() : "an error without a sentence"; }
};

/// Where work failed on some ranks, all raise the error of the first of them; with its rank where it `is_shared` and went well on
/// others. Collective.
template <shows_words Ranks>
void share_failure(Ranks& ranks, Failure const& failure, bool is_shared = true) {
    std::uint64_t const mine =
        failure.sentence.empty() ? 0 : std::hash<std::string>{}(failure.sentence) << 8 | static_cast<std::uint64_t>(failure.fault);
    std::vector<std::uint64_t> const words  = ranks.gather_values(mine);
    auto const                       failed = std::find_if(words.begin(), words.end(), [](std::uint64_t word) { return word != 0; });
    if (failed == words.end()) return;
    auto const        rank     = static_cast<std::size_t>(failed - words.begin());
    std::string const sentence = text_of_rank(ranks, rank, failure.sentence);
    bool const        alike    = std::count(words.begin(), words.end(), *failed) == static_cast<std::ptrdiff_t>(words.size());
    throw Error(static_cast<Fault>(*failed & 0xFF), is_shared && !alike ? lockstep::sentence("rank ", rank, ": ", sentence) : sentence);
}

/// Runs `body`, which talks to no other rank, on all ranks, and then agrees on how it went. Collective.
template <shows_words Ranks, class Body>
void together(Ranks& ranks, Body&& body) {
    share_failure(ranks, Failure::of(body));
}

/// Runs `body` on rank 0; where it fails there, all ranks raise its error. Collective.
template <shows_words Ranks, class Body>
void on_first_rank(Ranks& ranks, Body&& body) {
    share_failure(ranks, ranks.rank() == 0 ? Failure::of(body) : Failure{}, false);
}

/// The ranks meet again and again until all are `done()` with files. Who is not after a minute is told of. Collective.
template <shows_words Ranks, class Done>
void meet_until(Ranks& ranks, Done const& done) {
    auto const begin = std::chrono::steady_clock::now();
    bool       told  = false;
    for (std::chrono::microseconds pause{50};; pause = std::min(2 * pause, std::chrono::microseconds(50'000))) {
        std::vector<std::uint64_t> const words = ranks.gather_values(done() ? 1 : 0);
        auto const                       slow  = std::ranges::find(words, std::uint64_t{0});
        if (slow == words.end()) return;
        if (ranks.rank() == 0 && !told && std::chrono::steady_clock::now() - begin > std::chrono::minutes(1)) {
            told = true;
            std::fprintf(stderr, "rank %td is still at work on files after a minute: all ranks wait for it\n", slow - words.begin());
        }
        std::this_thread::sleep_for(pause);
    }
}

namespace detail {

/// Runs `body` in a thread of its own, if at all; meanwhile the ranks meet. Collective.
template <shows_words Ranks, class Body>
Failure at_length(Ranks& ranks, bool here, Body&& body) {
    Failure           failure;
    std::atomic<bool> done{!here};
    std::jthread      thread;
    auto const        work = [&] {
        failure = Failure::of(body);
        done    = true;
    };
    try {
        if (here) thread = std::jthread(work);
    } catch (std::system_error const&) {  // no other thread is to be had: the ranks wait as long as they may
        work();
    }
    meet_until(ranks, [&] { return done.load(); });
    if (thread.joinable()) thread.join();
    return failure;
}

}  // namespace detail

/// `together`, or `on_first_rank`, for what may last longer than ranks wait for each other, as files do. `body` runs in a thread of its own
/// and talks to no other rank. Collective.
template <shows_words Ranks, class Body>
void together_at_length(Ranks& ranks, Body&& body, bool is_shared = true) {
    share_failure(ranks, detail::at_length(ranks, true, body), is_shared);
}
template <shows_words Ranks, class Body>
void on_first_rank_at_length(Ranks& ranks, Body&& body) {
    share_failure(ranks, detail::at_length(ranks, ranks.rank() == 0, body), false);
}

}  // namespace lockstep
