#include "stopping.hpp"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>

namespace {

volatile sig_atomic_t first_signal = 0, first_from_launcher = 0, doubled = 0;
timespec              first_time{};

/// One wish to end may arrive twice: in a terminal from there and from the launcher, whose child a rank is; and `timeout` signals first its
/// child, then its group.
bool same_as_first(int number, bool from_launcher) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    auto const later_ms = (now.tv_sec - first_time.tv_sec) * 1000 + (now.tv_nsec - first_time.tv_nsec) / 1'000'000;
    bool const at_once  = number == first_signal && later_ms < 300;
    bool const two_ways = number == first_signal && doubled == 0 && from_launcher != (first_from_launcher != 0) && later_ms < 2000;
    return at_once || two_ways;
}

extern "C" void note_signal(int number, siginfo_t* info, void*) {
    bool const from_launcher = info->si_pid == ::getppid();
    if (first_signal == 0) {
        ::clock_gettime(CLOCK_MONOTONIC, &first_time);
        first_from_launcher = from_launcher;
        first_signal        = number;
    } else if (same_as_first(number, from_launcher)) {
        if (from_launcher != (first_from_launcher != 0)) doubled = 1;
    } else {
        ::_exit(128 + number);
    }
}

}  // namespace

void train_gpt::catch_stop_signals() {
    struct sigaction action {};
    action.sa_sigaction = note_signal;
    action.sa_flags     = SA_RESTART | SA_SIGINFO;
    for (int const number : {SIGTERM, SIGINT}) ::sigaction(number, &action, nullptr);
}

int train_gpt::stop_signal() noexcept { return first_signal; }
