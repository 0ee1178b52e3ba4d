#include "stopping.hpp"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>

namespace {

volatile sig_atomic_t first_signal = 0, first_from_launcher = 0, doubled = 0;
timespec              first_time{};

/// In a terminal a rank gets one interrupt twice: from there and from the launcher, whose child it is.
bool same_as_first(bool from_launcher) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return doubled == 0 && from_launcher != (first_from_launcher != 0) && now.tv_sec - first_time.tv_sec < 2;
}

extern "C" void note_signal(int number, siginfo_t* info, void*) {
    bool const from_launcher = info->si_pid == ::getppid();
    if (first_signal == 0) {
        ::clock_gettime(CLOCK_MONOTONIC, &first_time);
        first_from_launcher = from_launcher;
        first_signal        = number;
    } else if (same_as_first(from_launcher)) {
        doubled = 1;
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
