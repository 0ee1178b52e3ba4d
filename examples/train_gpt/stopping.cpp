#include "stopping.hpp"

#include <signal.h>
#include <unistd.h>

#include <initializer_list>

namespace {

volatile sig_atomic_t first_signal = 0, first_sender = -1, other_sender = -1;

/// In a terminal a rank gets one interrupt from there and the same one from the launcher: only a second one of the same sender counts.
extern "C" void note_signal(int number, siginfo_t* info, void*) {
    sig_atomic_t const sender = info->si_pid;
    if (first_signal == 0) {
        first_signal = number;
        first_sender = sender;
    } else if (sender != first_sender && other_sender == -1) {
        other_sender = sender;
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
